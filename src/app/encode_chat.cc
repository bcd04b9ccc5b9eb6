#include "app/commands.h"

#include <iostream>
#include <string>

#include "app/options.h"
#include "base/piped_text.h"
#include "chat/json_lines.h"

namespace baleen {

void add_encode_chat_command(Options& command) {
  command.footer(
      "Reads {\"messages\": [...], \"thinking_mode\": \"chat\"|\"thinking\", \"drop_thinking\": true,\n"
      "\"reasoning_effort\": null|\"high\"|\"max\"} a line; writes {\"prompt\": ...} or {\"error\": ...} for "
      "each.");
  command.action([] {
    // Flushed line by line, so that a program can hold a dialogue with this one.
    for (std::string line; read_line(std::cin, line, "standard input");)
      std::cout << encode_chat_line(line) << std::endl;
  });
}

}  // namespace baleen
