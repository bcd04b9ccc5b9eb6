#include "app/commands.h"

#include <iostream>
#include <memory>
#include <string>

#include "app/options.h"
#include "app/prompt_profile_flag.h"
#include "base/piped_text.h"
#include "chat/json_lines.h"
#include "checkpoint/folder_check.h"
#include "checkpoint/gguf/gguf_model.h"
#include "log/log.h"
#include "model/found_prompt_profile.h"

namespace baleen {
namespace {

struct EncodeChatFlags {
  std::string model;
  PromptProfileFlag prompts;
};

PromptProfile profile_of(const EncodeChatFlags& flags) {
  if (flags.model.empty()) return flags.prompts.chosen().value_or(PromptProfile::kPreview);
  if (flags.prompts.chosen()) return flags.prompts.of(flags.model);
  if (!find_gguf(flags.model)) check_checkpoint_folder(flags.model);
  const FoundPromptProfile found = find_prompt_profile(flags.model);
  const std::string_view name = prompt_profile_name(found.profile.value);
  if (found.is_assumed)
    log_line("prompt profile {}, {}; --prompt-profile says another", name, found.profile.evidence);
  return found.profile.value;
}

}  // namespace

void add_encode_chat_command(Options& command) {
  auto flags = std::make_shared<EncodeChatFlags>();
  command.path("--model,-m", flags->model, "Folder of the model that the prompts are for");
  flags->prompts.add_to(command, "those of the encoder in the model's folder, preview without a model");
  command.footer(
      "Reads {\"messages\": [...], \"thinking_mode\": \"chat\"|\"thinking\", \"drop_thinking\": true,\n"
      "\"reasoning_effort\": null|\"low\"|\"high\"|\"max\"|1..100} a line; writes {\"prompt\": ...} or "
      "{\"error\": "
      "...}\n"
      "for each. Efforts are those of the prompt profile.");
  command.action([flags] {
    const PromptProfile profile = profile_of(*flags);
    // Flushed line by line, so that a program can hold a dialogue with this one.
    for (std::string line; read_line(std::cin, line, "standard input");)
      std::cout << encode_chat_line(line, profile) << std::endl;
  });
}

}  // namespace baleen
