#include "app/commands.h"

#include <fmt/format.h>

#include <memory>
#include <string>

#include "app/command_description.h"
#include "app/completions.h"
#include "app/data_files.h"
#include "app/man_page.h"
#include "app/options.h"
#include "app/version.h"
#include "server/page.h"

namespace baleen {
namespace {

/// Some defaults are files that come with the program, below `folder` on this machine; what is installed
/// names their place in any prefix.
void name_installed_files(CommandDescription& command, const std::string& folder) {
  for (OptionDescription& option : command.options) {
    const std::size_t found = option.text.find(folder);
    if (found != std::string::npos) option.text.replace(found, folder.size(), "PREFIX/share/baleen/");
  }
  for (CommandDescription& inner : command.commands) name_installed_files(inner, folder);
}

CommandDescription installed(CommandDescription description) {
  name_installed_files(description, data_file(""));
  return description;
}

void print_completions(const CommandDescription& program, const std::string& shell) {
  const CommandDescription description = installed(program);
  if (shell == "bash") fmt::print("{}", bash_completion(description));
  if (shell == "zsh") fmt::print("{}", zsh_completion(description));
  if (shell == "fish") fmt::print("{}", fish_completion(description));
}

}  // namespace

void add_completions_command(Options& command) {
  auto shell = std::make_shared<std::string>();
  command.choice("shell", *shell, {"bash", "zsh", "fish"}, "The shell").required();
  command.footer("For this shell alone: source <(baleen completions bash)");
  command.action([shell](const CommandDescription& program) { print_completions(program, *shell); });
}

void add_man_command(Options& command) {
  command.action([](const CommandDescription& program) {
    fmt::print("{}", man_page(installed(program), program_version()));
  });
}

void add_notices_command(Options& command) {
  command.action([] { fmt::print("{}", third_party_notices()); });
}

}  // namespace baleen
