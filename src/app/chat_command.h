/// What a line typed into `baleen chat` may ask of the program rather than of the model.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "app/thinking.h"
#include "base/error.h"

namespace baleen {

struct ChatCommand {
  enum class Kind { kHelp, kNew, kSave, kLoad, kThink, kStats, kQuit };

  Kind kind;
  std::filesystem::path file = {};  ///< what kSave and kLoad name
  Thinking thinking = {};           ///< what kThink names
};

/// Whether the line is for the program: it begins with a slash. A space before the slash makes it a message.
[[nodiscard]] inline bool is_chat_command(std::string_view line) { return line.starts_with('/'); }

/// Only after `is_chat_command`. A file name is the rest of the line, so it may hold spaces; efforts are what
/// the profile has. The failure says what was typed, what is possible, and how to send the line as a message
/// if that was meant.
[[nodiscard]] Result<ChatCommand> parse_chat_command(std::string_view line, const PromptProfile& profile);

/// The commands, one a line, for /help.
[[nodiscard]] std::string chat_command_help(const PromptProfile& profile);

}  // namespace baleen
