#include "app/chat_command.h"

#include <fmt/format.h>

#include <algorithm>

namespace baleen {
namespace {

using Kind = ChatCommand::Kind;

struct Entry {
  Kind kind;
  std::string_view name, argument, meaning;
};

constexpr Entry kEntries[] = {
    {Kind::kHelp, "/help", "", "this list"},
    {Kind::kNew, "/new", "", "start a new conversation"},
    {Kind::kSave, "/save", "FILE", "write the conversation as JSON"},
    {Kind::kLoad, "/load", "FILE", "go on with a saved conversation"},
    {Kind::kThink, "/think", "EFFORT", "how hard to think before answering"},
    {Kind::kStats, "/stats", "", "tokens, speed and memory so far"},
    {Kind::kQuit, "/quit", "", "leave; so does Ctrl-D"},
};

/// What follows the command; of /think the words themselves: `off|low|high|max`.
std::string argument_of(const Entry& entry, const PromptProfile& profile) {
  if (entry.kind != Kind::kThink) return std::string(entry.argument);
  std::string words = fmt::format("off|{}", fmt::join(effort_names(profile), "|"));
  if (prompt_rules(profile).has_numbers()) words += fmt::format("|{}..{}", kMinEffort, kMaxEffort);
  return words;
}

bool is_control(char letter) {
  return (static_cast<unsigned char>(letter) < ' ' && letter != '\t' && letter != '\r') || letter == '\x7F';
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return "";
  return text.substr(begin, text.find_last_not_of(kBlank) + 1 - begin);
}

}  // namespace

Result<ChatCommand> parse_chat_command(std::string_view line, const PromptProfile& profile) {
  const std::string_view name = line.substr(0, line.find_first_of(" \t\r\n"));
  const std::string_view argument = trimmed(line.substr(name.size()));
  if (std::ranges::any_of(line, is_control)) {
    return failure(
        "a command is one line without control characters; found {} lines after a slash. Nothing was done; a "
        "space before "
        "the slash sends them as a message",
        1 + std::ranges::count(line, '\n'));
  }
  for (const Entry& entry : kEntries) {
    if (entry.name != name) continue;
    if (entry.argument.empty() && !argument.empty()) {
      return failure("{} stands alone; found \"{}\" after it", name, argument);
    }
    if (!entry.argument.empty() && argument.empty()) {
      return failure("{} is followed by {}", name, argument_of(entry, profile));
    }
    ChatCommand command{entry.kind};
    if (entry.kind == Kind::kSave || entry.kind == Kind::kLoad) command.file = argument;
    if (entry.kind == Kind::kThink) {
      const Result<Thinking> thinking = thinking_named(profile, argument);
      if (!thinking) return failure("{}: {}", name, thinking.error());
      command.thinking = thinking.value();
    }
    return command;
  }
  return failure(
      "there is no command {}; /help lists them, and a space before the slash sends the line as a message",
      name);
}

std::string chat_command_help(const PromptProfile& profile) {
  std::string help;
  for (const Entry& entry : kEntries) {
    const std::string usage = fmt::format("{} {}", entry.name, argument_of(entry, profile));
    help += fmt::format("{:<24} {}\n", usage, entry.meaning);
  }
  return help + "Ctrl-C stops a reply. A line that begins with a space is always a message.\n";
}

}  // namespace baleen
