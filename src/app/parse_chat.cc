#include "app/parse_chat.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <string>

#include "chat/json_lines.h"

namespace baleen {

void add_parse_chat_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("parse-chat", "Parse completions to messages, one JSON object a line");
  command->footer(
      "Reads {\"text\": ..., \"thinking_mode\": \"chat\"|\"thinking\"} a line, where the text begins after "
      "the\n"
      "thinking tag that ended the prompt and includes the end token; writes {\"message\": {...}} or\n"
      "{\"error\": ...} for each.");
  command->callback([] {
    for (std::string line; std::getline(std::cin, line);) std::cout << parse_chat_line(line) << std::endl;
  });
}

}  // namespace baleen
