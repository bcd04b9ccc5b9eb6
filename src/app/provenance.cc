#include "app/provenance.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>

namespace baleen {
namespace {

bool is_plain(char letter) {
  constexpr std::string_view kPlain = "_-+=./:,@%";
  return std::isalnum(static_cast<unsigned char>(letter)) != 0 ||
         kPlain.find(letter) != std::string_view::npos;
}

std::string quoted(const std::string& argument) {
  if (!argument.empty() && std::ranges::all_of(argument, is_plain)) return argument;
  std::string text = "'";
  for (const char letter : argument) text += letter == '\'' ? "'\\''" : std::string(1, letter);
  return text + "'";
}

}  // namespace

std::string shell_command(const std::vector<std::string>& arguments) {
  std::string text;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string argument =
        i == 0 ? std::filesystem::path(arguments[i]).filename().string() : arguments[i];
    text += (i == 0 ? "" : " ") + quoted(argument);
  }
  return text;
}

Provenance provenance() {
  std::vector<std::string> arguments;
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  for (std::string argument; std::getline(file, argument, '\0');) arguments.push_back(argument);
  return {.command = shell_command(arguments), .revision = program_revision()};
}

}  // namespace baleen
