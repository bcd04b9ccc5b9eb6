#include "app/chat_command.h"

#include <fmt/format.h>

namespace baleen {
namespace {

struct Entry {
  std::string_view name, argument, meaning;
  /// `argument` is empty exactly when the entry's `argument` is.
  Result<ChatCommand> (*make)(std::string_view argument);
};

template <class Command>
Result<ChatCommand> without_argument(std::string_view) {
  return ChatCommand(Command{});
}

template <class Command>
Result<ChatCommand> with_file(std::string_view file) {
  return ChatCommand(Command{std::filesystem::path(file)});
}

Result<ChatCommand> think(std::string_view level) {
  if (level == "off") return ChatCommand(chat_command::Think{Thinking::kOff});
  if (level == "high") return ChatCommand(chat_command::Think{Thinking::kHigh});
  if (level == "max") return ChatCommand(chat_command::Think{Thinking::kMax});
  return failure("/think is followed by off, high or max; found \"{}\"", level);
}

constexpr Entry kEntries[] = {
    {"/help", "", "this list", without_argument<chat_command::Help>},
    {"/new", "", "start a new conversation", without_argument<chat_command::New>},
    {"/save", "FILE", "write the conversation as JSON", with_file<chat_command::Save>},
    {"/load", "FILE", "go on with a saved conversation", with_file<chat_command::Load>},
    {"/think", "off|high|max", "how much to think before answering", think},
    {"/stats", "", "tokens, speed and memory so far", without_argument<chat_command::Stats>},
    {"/quit", "", "leave; so does Ctrl-D", without_argument<chat_command::Quit>},
};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return "";
  return text.substr(begin, text.find_last_not_of(kBlank) + 1 - begin);
}

}  // namespace

Result<ChatCommand> parse_chat_command(std::string_view line) {
  const std::string_view name = line.substr(0, line.find_first_of(" \t\r"));
  const std::string_view argument = trimmed(line.substr(name.size()));
  for (const Entry& entry : kEntries) {
    if (entry.name != name) continue;
    if (entry.argument.empty() && !argument.empty()) {
      return failure("{} stands alone; found \"{}\" after it", name, argument);
    }
    if (!entry.argument.empty() && argument.empty())
      return failure("{} is followed by {}", name, entry.argument);
    return entry.make(argument);
  }
  return failure(
      "there is no command {}; /help lists them, and a space before the slash sends the line as a message",
      name);
}

std::string chat_command_help() {
  std::string help;
  for (const Entry& entry : kEntries) {
    help += fmt::format("{:<20} {}\n", fmt::format("{} {}", entry.name, entry.argument), entry.meaning);
  }
  return help + "Ctrl-C stops a reply. A line that begins with a space is always a message.\n";
}

}  // namespace baleen
