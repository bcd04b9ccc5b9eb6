#include "app/encode_chat.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <string>

#include "chat/json_lines.h"

namespace baleen {

void add_encode_chat_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("encode-chat", "Render conversations to prompts, one JSON object a line");
  command->footer(
      "Reads {\"messages\": [...], \"thinking_mode\": \"chat\"|\"thinking\", \"drop_thinking\": true,\n"
      "\"reasoning_effort\": null|\"high\"|\"max\"} a line; writes {\"prompt\": ...} or {\"error\": ...} for "
      "each.");
  command->callback([] {
    // Flushed line by line, so that a program can hold a dialogue with this one.
    for (std::string line; std::getline(std::cin, line);) std::cout << encode_chat_line(line) << std::endl;
  });
}

}  // namespace baleen
