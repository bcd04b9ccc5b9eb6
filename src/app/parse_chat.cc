#include "app/commands.h"

#include <iostream>
#include <memory>
#include <string>

#include "app/options.h"
#include "app/prompt_profile_flag.h"
#include "base/piped_text.h"
#include "chat/json_lines.h"

namespace baleen {
namespace {

struct ParseChatFlags {
  bool tolerant = false;
  PromptProfileFlag prompts;
};

}  // namespace

void add_parse_chat_command(Options& command) {
  auto flags = std::make_shared<ParseChatFlags>();
  command.flag("--tolerant", flags->tolerant,
               "Read as the server does: repair what is unambiguous, drop the rest");
  flags->prompts.add_to(command, "preview");
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
  command.action([flags] {
    const PromptProfile profile = flags->prompts.chosen().value_or(PromptProfile::kPreview);
    for (std::string line; read_line(std::cin, line, "standard input");)
      std::cout << (flags->tolerant ? read_reply_line(line, profile) : parse_chat_line(line, profile))
                << std::endl;
  });
}

}  // namespace baleen
