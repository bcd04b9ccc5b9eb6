#include "app/parse_chat.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>

#include "chat/json_lines.h"

namespace baleen {

void add_parse_chat_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("parse-chat", "Parse completions to messages, one JSON object a line");
  auto tolerant = std::make_shared<bool>(false);
  command->add_flag("--tolerant", *tolerant,
                    "Read as the server does: repair what is unambiguous, drop the rest");
  command->footer(
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
  command->callback([tolerant] {
    for (std::string line; std::getline(std::cin, line);)
      std::cout << (*tolerant ? read_reply_line(line) : parse_chat_line(line)) << std::endl;
  });
}

}  // namespace baleen
