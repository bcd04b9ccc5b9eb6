#include "app/man_page.h"

#include <fmt/format.h>

#include <vector>

#include "app/command_description.h"

namespace baleen {
namespace {

/// Text as roff prints it: hyphens that can be copied, indented lines, and no line that reads as a request.
std::string roff(const std::string& text) {
  std::string escaped;
  bool line_begins = true;
  for (const char c : text) {
    if (line_begins && (c == '.' || c == '\'')) escaped += "\\&";
    line_begins = c == '\n' || (line_begins && c == ' ');
    if (c == ' ' && line_begins) {
      escaped += "\\ ";
    } else if (c == '\\') {
      escaped += "\\e";
    } else if (c == '-') {
      escaped += "\\-";
    } else if (c == '\n') {
      escaped += "\n.br\n";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string upper(std::string text) {
  for (char& c : text)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return text;
}

/// `-t, --threads N`, in the page's fonts.
std::string option_heading(const OptionDescription& option) {
  std::string heading;
  for (const std::string& name : option.names)
    heading += fmt::format("{}\\fB{}\\fR", heading.empty() ? "" : ", ", roff(name));
  if (option.names.empty()) return fmt::format("\\fI{}\\fR", roff(upper(option.position)));
  return option.takes_value() ? fmt::format("{} \\fI{}\\fR", heading, roff(option.value)) : heading;
}

std::string option_entries(const std::vector<OptionDescription>& options) {
  std::string text;
  for (const OptionDescription& option : options)
    text += fmt::format(".TP\n{}\n{}\n", option_heading(option), roff(option.text));
  return text;
}

/// A command and those below it, each under a heading of its own.
std::string command_section(const CommandDescription& command, const std::string& path) {
  std::string positions;
  for (const OptionDescription& option : command.options)
    if (!option.position.empty()) positions += fmt::format(" [\\fI{}\\fR]", roff(upper(option.position)));
  std::string text = fmt::format(".SS {0}\n\\fBbaleen {0}\\fR [\\fIOPTION\\fR]...{1}\n.PP\n{2}.\n",
                                 roff(path), positions, roff(command.text));
  text += option_entries(command.options);
  if (!command.footer.empty()) text += fmt::format(".PP\n{}\n", roff(command.footer));
  for (const CommandDescription& inner : command.commands)
    text += command_section(inner, path + " " + inner.name);
  return text;
}

constexpr const char* kAfterCommands = R"(.SH EXIT STATUS
0: done; 1: failed, with a sentence on standard error that says why; 2: wrong usage.
.SH FILES
.TP
\fIPREFIX/share/baleen/models/stories\fR
The bundled model, used where \fB\-\-model\fR is not given. PREFIX is the folder above the program's own.
.TP
\fI/etc/default/baleen\fR
Options of the service \fBbaleen.service\fR.
.TP
\fI/var/cache/baleen\fR
The service's prefixes on disk.
.SH EXAMPLES
.nf
baleen run \-\-chat "Tell me a story about a fox who finds a lantern."
baleen serve \-\-port 8080
baleen plan flash \-\-device h200
baleen simulate search \-\-num\-devices 8 \-\-html plans.html
.fi
.SH SEE ALSO
.BR systemctl (1)
)";

}  // namespace

std::string man_page(const CommandDescription& program, const std::string& version) {
  std::string text = fmt::format(
      ".\\\" Made by `baleen man`.\n.TH BALEEN 1 \"\" \"baleen {}\" \"User Commands\"\n"
      ".SH NAME\nbaleen \\- run, serve, plan and train DeepSeek\\-V4 and V4.1\n"
      ".SH SYNOPSIS\n.B baleen\n.I COMMAND\n[\\fIOPTION\\fR]...\n.SH DESCRIPTION\n{}\n.SH OPTIONS\n{}"
      ".SH COMMANDS\n",
      roff(version), roff(program.text), option_entries(program.options));
  for (const CommandDescription& command : program.commands) text += command_section(command, command.name);
  return text + kAfterCommands;
}

}  // namespace baleen
