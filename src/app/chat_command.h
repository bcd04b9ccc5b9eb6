/// What a line typed into `baleen chat` may ask of the program rather than of the model.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <variant>

#include "base/error.h"

namespace baleen {

enum class Thinking { kOff, kHigh, kMax };

namespace chat_command {
struct Help {};
struct New {};
struct Save {
  std::filesystem::path file;
};
struct Load {
  std::filesystem::path file;
};
struct Think {
  Thinking level;
};
struct Stats {};
struct Quit {};
}  // namespace chat_command

using ChatCommand =
    std::variant<chat_command::Help, chat_command::New, chat_command::Save, chat_command::Load,
                 chat_command::Think, chat_command::Stats, chat_command::Quit>;

/// Whether the line is for the program: it begins with a slash. A space before the slash makes it a message.
[[nodiscard]] inline bool is_chat_command(std::string_view line) { return line.starts_with('/'); }

/// Only after `is_chat_command`. A file name is the rest of the line, so it may hold spaces. The failure says
/// what was typed, what is possible, and how to send the line as a message if that was meant.
[[nodiscard]] Result<ChatCommand> parse_chat_command(std::string_view line);

/// The commands, one a line, for /help.
[[nodiscard]] std::string chat_command_help();

}  // namespace baleen
