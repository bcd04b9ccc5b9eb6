#include "app/completions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <vector>

#include "app/command_description.h"

namespace baleen {
namespace {

/// `'it'\''s'`: one word of bash and zsh.
std::string quoted_for_sh(const std::string& text) {
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? "'\\''" : std::string(1, c);
  return word + "'";
}

/// One word of fish, where a backslash escapes inside single quotes too.
std::string quoted_for_fish(const std::string& text) {
  std::string word = "'";
  for (const char c : text) word += (c == '\'' || c == '\\' ? "\\" : "") + std::string(1, c);
  return word + "'";
}

using Action = std::function<void(const CommandDescription&, const std::string& path)>;

/// Calls `action` for a command and all below it, with the words that call it: "baleen simulate search".
void for_each_command(const CommandDescription& command, const std::string& path, const Action& action) {
  action(command, path);
  for (const CommandDescription& inner : command.commands)
    for_each_command(inner, path + " " + inner.name, action);
}

/// All paths but the program's own, each as `quote` writes it.
std::vector<std::string> command_paths(const CommandDescription& program,
                                       const std::function<std::string(const std::string&)>& quote) {
  std::vector<std::string> paths;
  for_each_command(program, program.name, [&](const CommandDescription&, const std::string& path) {
    if (path != program.name) paths.push_back(quote(path));
  });
  return paths;
}

std::vector<std::string> option_names(const CommandDescription& command) {
  std::vector<std::string> names;
  for (const OptionDescription& option : command.options)
    names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

/// What may follow a command besides options and files: its commands, the choices of its positions.
std::vector<std::string> following_words(const CommandDescription& command) {
  std::vector<std::string> words;
  for (const CommandDescription& inner : command.commands) words.push_back(inner.name);
  for (const OptionDescription& option : command.options) {
    if (option.position.empty()) continue;
    for (const std::string& choice : option.choices()) words.push_back(choice);
  }
  return words;
}

bool has_path_position(const CommandDescription& command) {
  for (const OptionDescription& option : command.options)
    if (!option.position.empty() && option.takes_path()) return true;
  return false;
}

/// The branches of bash's `case "$path $previous"` for one command: what may stand after an option that takes
/// a value.
std::string bash_values(const CommandDescription& command, const std::string& path) {
  std::string lines;
  for (const OptionDescription& option : command.options) {
    if (option.names.empty() || !option.takes_value()) continue;
    std::vector<std::string> patterns;
    for (const std::string& name : option.names) patterns.push_back(quoted_for_sh(path + " " + name));
    std::string action = "return";
    if (option.takes_path()) action = "_baleen_files \"$current\"; return";
    if (const auto choices = option.choices(); !choices.empty()) {
      const std::string words = fmt::format("{}", fmt::join(choices, " "));
      action = fmt::format("_baleen_words {} \"$current\"; return", quoted_for_sh(words));
    }
    lines += fmt::format("    {}) {} ;;\n", fmt::join(patterns, "|"), action);
  }
  return lines;
}

/// Brackets and backslashes end a description of zsh's `_arguments`.
std::string zsh_text(const std::string& text) {
  std::string escaped;
  for (const char c : text) escaped += (c == '[' || c == ']' || c == '\\' ? "\\" : "") + std::string(1, c);
  return escaped;
}

/// `:PATH:_files`, the part of a specification of `_arguments` that describes a value.
std::string zsh_value(const OptionDescription& option) {
  if (!option.takes_value()) return "";
  if (option.takes_path()) return ":PATH:_files";
  if (const auto choices = option.choices(); !choices.empty())
    return fmt::format(":value:({})", fmt::join(choices, " "));
  return fmt::format(":{}: ", option.value);
}

/// The arguments of `_arguments` for the options of a command, one a line.
std::string zsh_options(const CommandDescription& command) {
  std::string lines;
  for (const OptionDescription& option : command.options) {
    for (const std::string& name : option.names) {
      const std::string others = option.repeatable ? "*" : fmt::format("({})", fmt::join(option.names, " "));
      const std::string equals = option.takes_value() && name.starts_with("--") ? "=" : "";
      const std::string word =
          fmt::format("{}{}{}[{}]{}", others, name, equals, zsh_text(option.summary()), zsh_value(option));
      lines += fmt::format("    {} \\\n", quoted_for_sh(word));
    }
  }
  return lines;
}

std::string zsh_function_name(std::string path) {
  for (char& c : path)
    if (c == ' ') c = '_';
  return "_" + path;
}

std::string zsh_leaf(const CommandDescription& command, const std::string& path) {
  std::string positions;
  for (const OptionDescription& option : command.options) {
    if (option.position.empty()) continue;
    const auto choices = option.choices();
    const std::string action = choices.empty() ? "_files" : fmt::format("({})", fmt::join(choices, " "));
    positions += fmt::format("    {} \\\n", quoted_for_sh("::" + option.position + ":" + action));
  }
  return fmt::format("{}() {{\n  _arguments \\\n{}{}    && return\n}}\n\n", zsh_function_name(path),
                     zsh_options(command), positions);
}

/// A command with commands: the first word chooses one; the rest is that one's affair.
std::string zsh_branch(const CommandDescription& command, const std::string& path) {
  std::string names, calls;
  for (const CommandDescription& inner : command.commands) {
    names += fmt::format("        {}\n", quoted_for_sh(inner.name + ":" + inner.text));
    calls += fmt::format("        {}) {} ;;\n", inner.name, zsh_function_name(path + " " + inner.name));
  }
  const std::string files = has_path_position(command) ? "      _files\n" : "";
  return fmt::format(R"({}() {{
  local curcontext="$curcontext" state line
  _arguments -C \
{}    '1: :->command' \
    '*:: :->arguments' && return
  case $state in
    command)
      local -a commands=(
{}      )
      _describe command commands
{}      ;;
    arguments)
      case $line[1] in
{}      esac
      ;;
  esac
}}

)",
                     zsh_function_name(path), zsh_options(command), names, files, calls);
}

/// One `complete` of fish for an option, valid after `path`.
std::string fish_option(const OptionDescription& option, const std::string& path) {
  const std::string condition = quoted_for_fish(fmt::format("test (__baleen_path) = \"{}\"", path));
  const std::string values =
      option.choices().empty() ? "" : fmt::format(" -a '{}'", fmt::join(option.choices(), " "));
  std::string line = "complete -c baleen -n " + condition;
  if (option.names.empty()) {
    if (!option.takes_path() && values.empty()) return "";
    return line + (option.takes_path() ? " -F" : values) + "\n";
  }
  for (const std::string& name : option.names)
    line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  if (option.takes_path()) {
    line += " -r -F";
  } else if (option.takes_value()) {
    line += " -x" + values;
  }
  return line + " -d " + quoted_for_fish(option.summary()) + "\n";
}

}  // namespace

std::string bash_completion(const CommandDescription& program) {
  std::string values, words;
  for_each_command(program, program.name, [&](const CommandDescription& command, const std::string& path) {
    values += bash_values(command, path);
    words += fmt::format("    '{}')\n      options='{}'\n      words='{}' files={} ;;\n", path,
                         fmt::join(option_names(command), " "), fmt::join(following_words(command), " "),
                         has_path_position(command) ? "yes" : "''");
  });
  return fmt::format(R"(# bash completion of {0}, made by `{0} completions bash`.
_baleen_words() {{
  mapfile -t COMPREPLY < <(compgen -W "$1" -- "$2")
}}

_baleen_files() {{
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen -f -- "$1")
}}

_baleen() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}} path={0}
  local options words files found i
  COMPREPLY=()
  # bash makes a word of the sign in --option=value.
  if [[ $current == '=' ]]; then
    current=''
  elif [[ $previous == '=' ]]; then
    previous=${{COMP_WORDS[COMP_CWORD - 2]}}
  fi
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "$path ${{COMP_WORDS[i]}}" in
      {1}) path+=" ${{COMP_WORDS[i]}}" ;;
    esac
  done
  case "$path $previous" in
{2}  esac
  case "$path" in
{3}  esac
  if [[ $current == -* ]]; then
    _baleen_words "$options" "$current"
    return
  fi
  _baleen_words "$words" "$current"
  if [[ $files ]]; then
    found=("${{COMPREPLY[@]}}")
    _baleen_files "$current"
    COMPREPLY=("${{found[@]}}" "${{COMPREPLY[@]}}")
  fi
}}
complete -F _baleen {0}
)",
                     program.name, fmt::join(command_paths(program, quoted_for_sh), "|"), values, words);
}

std::string zsh_completion(const CommandDescription& program) {
  std::string functions;
  for_each_command(program, program.name, [&](const CommandDescription& command, const std::string& path) {
    functions += command.commands.empty() ? zsh_leaf(command, path) : zsh_branch(command, path);
  });
  return fmt::format(R"(#compdef {0}
# zsh completion of {0}, made by `{0} completions zsh`.
{1}if [[ $funcstack[1] == _{0} ]]; then
  _{0} "$@"
else
  compdef _{0} {0}
fi
)",
                     program.name, functions);
}

std::string fish_completion(const CommandDescription& program) {
  std::string lines;
  for_each_command(program, program.name, [&](const CommandDescription& command, const std::string& path) {
    for (const CommandDescription& inner : command.commands) {
      lines += fmt::format("complete -c {} -n {} -a {} -d {}\n", program.name,
                           quoted_for_fish(fmt::format("test (__baleen_path) = \"{}\"", path)), inner.name,
                           quoted_for_fish(inner.text));
    }
    for (const OptionDescription& option : command.options) lines += fish_option(option, path);
  });
  return fmt::format(R"(# fish completion of {0}, made by `{0} completions fish`.
function __baleen_path
  set -l path {0}
  for word in (commandline -opc)[2..-1]
    switch "$path $word"
      case {1}
        set path "$path $word"
    end
  end
  echo $path
end

complete -c {0} -f
{2})",
                     program.name, fmt::join(command_paths(program, quoted_for_fish), " "), lines);
}

}  // namespace baleen
