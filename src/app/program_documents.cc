#include "app/program_documents.h"

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

CommandDescription installed_description(const Options& program) {
  CommandDescription description = program.description();
  name_installed_files(description, data_file(""));
  return description;
}

void print_completions(const Options& program, const std::string& shell) {
  const CommandDescription description = installed_description(program);
  if (shell == "bash") fmt::print("{}", bash_completion(description));
  if (shell == "zsh") fmt::print("{}", zsh_completion(description));
  if (shell == "fish") fmt::print("{}", fish_completion(description));
}

}  // namespace

void add_document_commands(Options& program) {
  auto shell = std::make_shared<std::string>();
  Options completions = program.command("completions", "Completions for a shell, on standard output");
  completions.choice("shell", *shell, {"bash", "zsh", "fish"}, "The shell").required();
  completions.footer("For this shell alone: source <(baleen completions bash)");
  completions.action([&program, shell] { print_completions(program, *shell); });

  Options man = program.command("man", "The manual page, on standard output");
  man.action([&program] { fmt::print("{}", man_page(installed_description(program), program_version())); });

  Options notices = program.command("notices", "Licences of the libraries that program and page contain");
  notices.action([] { fmt::print("{}", third_party_notices()); });
}

}  // namespace baleen
