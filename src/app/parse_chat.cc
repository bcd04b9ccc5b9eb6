#include "app/commands.h"

#include <iostream>
#include <memory>
#include <string>

#include "app/options.h"
#include "base/piped_text.h"
#include "chat/json_lines.h"

namespace baleen {

void add_parse_chat_command(Options& command) {
  auto tolerant = std::make_shared<bool>(false);
  command.flag("--tolerant", *tolerant, "Read as the server does: repair what is unambiguous, drop the rest");
  command.footer(
      "Reads {\"text\": ..., \"thinking_mode\": \"chat\"|\"thinking\"} a line, where the text begins after "
      "the\n"
      "thinking tag that ended the prompt and includes the end token; writes {\"message\": {...}} or\n"
      "{\"error\": ...} for each. With --tolerant, \"tools\" lists functions as in the OpenAI API, \"cut\": "
      "true "
      "says\n"
      "that a limit ended the reply, \"enforced\": true that a grammar held it; special strings in the text "
      "are\n"
      "taken for tokens, and \"pieces\": [\"text\", {\"special\": \"...\"}] instead of \"text\" tells them "
      "apart.");
  command.action([tolerant] {
    for (std::string line; read_line(std::cin, line, "standard input");)
      std::cout << (*tolerant ? read_reply_line(line) : parse_chat_line(line)) << std::endl;
  });
}

}  // namespace baleen
