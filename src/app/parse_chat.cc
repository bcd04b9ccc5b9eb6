#include "app/parse_chat.h"

#include <iostream>
#include <string>

#include "app/options.h"
#include "base/piped_text.h"
#include "chat/json_lines.h"

namespace baleen {

void add_parse_chat_command(Options& program) {
  Options command = program.command("parse-chat", "Parse completions to messages, one JSON object a line");
  command.footer(
      "Reads {\"text\": ..., \"thinking_mode\": \"chat\"|\"thinking\"} a line, where the text begins after "
      "the\n"
      "thinking tag that ended the prompt and includes the end token; writes {\"message\": {...}} or\n"
      "{\"error\": ...} for each.");
  command.action([] {
    for (std::string line; read_line(std::cin, line, "standard input");)
      std::cout << parse_chat_line(line) << std::endl;
  });
}

}  // namespace baleen
