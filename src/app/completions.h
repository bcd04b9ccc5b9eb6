/// Shell completions: commands, options, choices and files.
#pragma once

#include <string>

namespace baleen {

struct CommandDescription;

/// Scripts for a shell, which complete `program.name`. Bash's needs nothing but bash 4; zsh's is an
/// autoloadable file of `fpath`; fish's is a file of its completions folder.
[[nodiscard]] std::string bash_completion(const CommandDescription& program);
[[nodiscard]] std::string zsh_completion(const CommandDescription& program);
[[nodiscard]] std::string fish_completion(const CommandDescription& program);

}  // namespace baleen
