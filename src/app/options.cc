#include "app/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <string_view>

#include "app/command_description.h"
#include "base/nearest_name.h"
#include "base/quoted_text.h"

namespace baleen {
namespace {

constexpr std::size_t kMaxNumbers = 64;
constexpr std::size_t kMaxUnitBytes = 8;

struct Unit {
  std::string_view name;
  std::int64_t bytes;
};
constexpr Unit kUnits[] = {{"KIB", 1LL << 10},
                           {"MIB", 1LL << 20},
                           {"GIB", 1LL << 30},
                           {"TIB", 1LL << 40},
                           {"KB", 1'000},
                           {"MB", 1'000'000},
                           {"GB", 1'000'000'000},
                           {"TB", 1'000'000'000'000},
                           {"K", 1'000},
                           {"M", 1'000'000},
                           {"G", 1'000'000'000},
                           {"T", 1'000'000'000'000},
                           {"B", 1}};

/// `text (note)`; the note goes to the first line of a list.
std::string with_note(const std::string& text, const std::string& note) {
  const std::size_t line = std::min(text.find('\n'), text.size());
  return fmt::format("{} ({}){}", text.substr(0, line), note, text.substr(line));
}

std::string with_default(const std::string& range, const std::string& shown_default) {
  return shown_default.empty() ? range : fmt::format("{}; default {}", range, shown_default);
}

/// `0.5`, `for ever`
std::string real_default(double value) { return std::isfinite(value) ? fmt::format("{:g}", value) : "none"; }

/// The long name of an option as its user writes it.
std::string name_of(const std::string& names) { return names.substr(0, names.find(',')); }

/// A byte count with or without a unit.
Result<std::int64_t> read_bytes(std::string_view text, WholeRange range) {
  const auto refusal = [&] {
    return failure("expected {} to {} bytes, as in 500MB, 5GB or 10GiB; found {}", grouped(range.min),
                   grouped(range.max), quoted_text(text));
  };
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const Result<std::int64_t> count = read_whole(text.substr(0, digits), {});
  if (!count || text.size() - digits > kMaxUnitBytes) return refusal();
  std::string unit;
  for (const char c : text.substr(digits)) {
    if (c != ' ') unit += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  const auto* known = std::ranges::find(kUnits, std::string_view(unit), &Unit::name);
  if (!unit.empty() && known == std::end(kUnits)) return refusal();
  const auto bytes = checked_multiply(count.value(), unit.empty() ? 1 : known->bytes);
  if (!bytes || *bytes < range.min || *bytes > range.max) return refusal();
  return *bytes;
}

/// `run, chat and serve`
std::vector<std::string> names_of_commands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

std::vector<std::string> names_of_options(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::vector<std::string> names_given(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() > 0) names.push_back(option->get_name());
  }
  return names;
}

bool has_option(const CLI::App& app, const std::string& name) {
  return std::ranges::any_of(app.get_options(), [&](const CLI::Option* option) {
    return !option->get_group().empty() && name.starts_with('-') && option->check_name(name);
  });
}

/// Adds the commands below `app` that have an option of this name, as "simulate search".
void add_commands_with(const CLI::App& app, const std::string& name, const std::string& path,
                       std::vector<std::string>& found) {
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    const std::string whole = path.empty() ? command->get_name() : path + " " + command->get_name();
    if (has_option(*command, name)) found.push_back(whole);
    add_commands_with(*command, name, whole, found);
  }
}

/// The commands that the command line names, as "simulate search"; empty without one.
std::string named_command(const CLI::App& program) {
  std::string path;
  for (const CLI::App* app = &program; !app->get_subcommands().empty();) {
    app = app->get_subcommands().front();
    path += (path.empty() ? "" : " ") + app->get_name();
  }
  return path;
}

/// Refuses options in front of the command's name, which belong to the command above it and would be lost.
void check_before(const CLI::App& command) {
  for (const CLI::App* above = command.get_parent(); above != nullptr; above = above->get_parent()) {
    const std::vector<std::string> names = names_given(*above);
    if (names.empty()) continue;
    usage_error("{} stands before {}, which would not read it; put it behind", names.front(),
                command.get_name());
  }
}

OptionDescription described_option(const CLI::Option& option) {
  OptionDescription described;
  for (const std::string& name : option.get_snames()) described.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) described.names.push_back("--" + name);
  if (option.get_positional()) described.position = option.get_name(/*positional=*/true);
  described.value = option.get_option_text();
  described.text = option.get_description();
  described.repeatable = option.get_items_expected_max() > 1;
  if (described.repeatable) described.value = described.value.substr(0, described.value.find(' '));
  return described;
}

CommandDescription described_command(const CLI::App& app) {
  CommandDescription described{
      .name = app.get_name(), .text = app.get_description(), .footer = app.get_footer()};
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_group().empty()) described.options.push_back(described_option(*option));
  }
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    described.commands.push_back(described_command(*command));
  return described;
}

/// What is to be said of an option that `app` was not given where it would have read it.
std::string option_sentence(const CLI::App& app, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  if (has_option(app, name)) {
    return fmt::format("{} stands before {}, which would not read it; put it behind", quoted_text(word),
                       app.get_name());
  }
  const CLI::App* program = &app;
  while (program->get_parent() != nullptr) program = program->get_parent();
  std::vector<std::string> others;
  if (name.size() > 2) add_commands_with(*program, name, "", others);  // -f of two commands are two things
  if (others.empty()) {
    return fmt::format("{} is not an option{}", quoted_text(word), did_you_mean(name, names_of_options(app)));
  }
  return fmt::format("{} is not an option {}, but of {}", quoted_text(word),
                     &app == program ? "before a command" : "of " + named_command(*program),
                     fmt::join(others, ", "));
}

/// The sentence for a command line that does not fit `app`, the last command that it names.
std::string usage_sentence(const CLI::App& app, const std::vector<std::string>& unknown,
                           const CLI::ParseError& error) {
  const std::vector<std::string> commands = names_of_commands(app);
  if (!unknown.empty()) {
    const std::string& word = unknown.front();
    if (word.starts_with("-")) return option_sentence(app, word);
    if (commands.empty()) return fmt::format("{}: nothing more is expected here", quoted_text(word));
    const std::string near = did_you_mean(word, commands);
    return fmt::format("{} is not a command{}", quoted_text(word),
                       near.empty() ? fmt::format("; there are {}", fmt::join(commands, ", ")) : near);
  }
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && !commands.empty())
    return fmt::format("a command is missing; there are {}", fmt::join(commands, ", "));
  const std::string what = error.what();
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    const std::string name = what.substr(0, what.find(':'));
    const bool missing = what.find("missing") != std::string::npos;
    if (name.size() < what.size() && name.starts_with("-"))
      return fmt::format("{} {}", shortened_text(name),
                         missing ? "needs a value" : "is given more often than once");
  }
  return shortened_text(what);
}

/// Numbers separated by commas; `read_one` gives a Result of each.
template <class Number, class ReadOne>
std::vector<Number> read_list(const std::string& name, const std::string& word, ReadOne read_one) {
  std::vector<Number> numbers;
  for (std::size_t begin = 0; begin <= word.size();) {
    const std::size_t end = std::min(word.find(',', begin), word.size());
    const Result<Number> number = read_one(std::string_view(word).substr(begin, end - begin));
    if (!number) usage_error("{}: number {}: {}", name, numbers.size() + 1, number.error());
    if (numbers.size() == kMaxNumbers) usage_error("{}: more than {} numbers", name, kMaxNumbers);
    numbers.push_back(number.value());
    begin = end + 1;
  }
  return numbers;
}

}  // namespace

Option& Option::required() {
  option_->required();
  return *this;
}

Option& Option::needs(const Option& other) {
  option_->needs(other.option_);
  return *this;
}

Option& Option::excludes(const Option& other) {
  option_->excludes(other.option_);
  return *this;
}

Options::Options(const std::string& name, const std::string& description, VersionText version)
    : program_(std::make_shared<CLI::App>(description, name)), command_(program_.get()) {
  command_->require_subcommand(1);
  // Callbacks run in the order of these lines: --json is known when --version prints.
  const auto as_json = std::make_shared<bool>(false);
  CLI::Option* json = command_->add_flag("--json", *as_json, "With --version: one JSON line");
  json->needs(command_->set_version_flag(
      "--version", [as_json, version = std::move(version)] { return version(*as_json); },
      "Version, revision, compiler, CUDA architectures and libraries"));
}

Options::Options(const std::string& name, const std::string& description)
    : program_(std::make_shared<CLI::App>(description, name)), command_(program_.get()) {}

Options::Options(std::shared_ptr<CLI::App> program, CLI::App* command)
    : program_(std::move(program)), command_(command) {}

Options Options::command(const std::string& name, const std::string& description) {
  if (command_ != program_.get()) command_->require_subcommand(0, 1);
  return {program_, command_->add_subcommand(name, description)};
}

void Options::footer(const std::string& text) { command_->footer(text); }

void Options::action(std::function<void()> run) {
  action([run = std::move(run)](const std::vector<std::string>&) { run(); });
}

void Options::action(std::function<void(const std::vector<std::string>&)> run) {
  command_->callback([command = command_, run = std::move(run)] {
    if (!command->get_subcommands().empty()) return;
    check_before(*command);
    run(names_given(*command));
  });
}

void Options::action(std::function<void(const CommandDescription&)> run) {
  action([program = program_.get(), run = std::move(run)] { run(described_command(*program)); });
}

Option Options::add(const std::string& names, const TextReader& read, const std::string& text,
                    const std::string& kind) {
  CLI::Option* option = command_->add_option_function<std::string>(names, read, text);
  option->option_text(kind);
  return Option(option);
}

Option Options::add_integer(const std::string& names, WholeRange range, std::function<void(std::int64_t)> set,
                            const std::string& text, const std::string& shown_default) {
  const std::string note = fmt::format("{} to {}", grouped(range.min), grouped(range.max));
  const auto read = [name = name_of(names), range, set = std::move(set)](const std::string& word) {
    const Result<std::int64_t> value = read_whole(word, range);
    if (!value) usage_error("{}: {}", name, value.error());
    set(value.value());
  };
  return add(names, read, with_note(text, with_default(note, shown_default)), "N");
}

Option Options::add_bytes(const std::string& names, WholeRange range, std::function<void(std::int64_t)> set,
                          const std::string& text, std::int64_t shown_default) {
  const auto read = [name = name_of(names), range, set = std::move(set)](const std::string& word) {
    const Result<std::int64_t> value = read_bytes(word, range);
    if (!value) usage_error("{}: {}", name, value.error());
    set(value.value());
  };
  const std::string note =
      fmt::format("bytes, or as in 500MB, 5GB, 10GiB; default {}", grouped(shown_default));
  return add(names, read, with_note(text, note), "SIZE");
}

Option Options::add_real(const std::string& names, RealRange range, std::function<void(double)> set,
                         const std::string& text, const std::string& shown_default) {
  const auto read = [name = name_of(names), range, set = std::move(set)](const std::string& word) {
    const Result<double> value = read_real(word, range);
    if (!value) usage_error("{}: {}", name, value.error());
    set(value.value());
  };
  return add(names, read, with_note(text, with_default(range_text(range), shown_default)), "X");
}

Option Options::add_choice(const std::string& names, std::vector<std::string> allowed,
                           std::function<void(std::string)> set, const std::string& text,
                           const std::string& shown_default) {
  const std::string kind = fmt::format("{}", fmt::join(allowed, "|"));
  const std::string shown = shown_default.empty() ? text : with_note(text, "default " + shown_default);
  const auto read = [name = name_of(names), allowed = std::move(allowed),
                     set = std::move(set)](const std::string& word) {
    if (std::ranges::find(allowed, word) == allowed.end()) {
      usage_error("{}: expected one of {}; found {}{}", name, fmt::join(allowed, ", "), quoted_text(word),
                  did_you_mean(word, allowed));
    }
    set(word);
  };
  return add(names, read, shown, kind);
}

Option Options::seed(const std::string& names, std::uint64_t& value, const std::string& text) {
  const auto read = [name = name_of(names), &value](const std::string& word) {
    const Result<std::uint64_t> number = read_unsigned(word);
    if (!number) usage_error("{}: {}", name, number.error());
    value = number.value();
  };
  return add(names, read, with_note(text, fmt::format("any of 64 bits; default {}", value)), "N");
}

Option Options::seed(const std::string& names, std::optional<std::uint64_t>& value, const std::string& text) {
  const auto read = [name = name_of(names), &value](const std::string& word) {
    const Result<std::uint64_t> number = read_unsigned(word);
    if (!number) usage_error("{}: {}", name, number.error());
    value = number.value();
  };
  return add(names, read, with_note(text, "any of 64 bits; default: a fresh one"), "N");
}

Option Options::real(const std::string& names, double& value, RealRange range, const std::string& text) {
  return add_real(
      names, range, [&value](double read) { value = read; }, text, real_default(value));
}

Option Options::real(const std::string& names, std::optional<double>& value, RealRange range,
                     const std::string& text) {
  return add_real(names, range, [&value](double read) { value = read; }, text, {});
}

Option Options::real_without_default(const std::string& names, double& value, RealRange range,
                                     const std::string& text) {
  return add_real(names, range, [&value](double read) { value = read; }, text, {});
}

Option Options::reals(const std::string& names, std::vector<double>& values, RealRange range,
                      const std::string& text) {
  const auto read = [name = name_of(names), range, &values](const std::string& word) {
    values = read_list<double>(name, word, [&](std::string_view one) { return read_real(one, range); });
  };
  return add(names, read, with_note(text, range_text(range) + " each"), "X,X,...");
}

Option Options::integers(const std::string& names, std::vector<std::int64_t>& values, WholeRange range,
                         const std::string& text) {
  const auto read = [name = name_of(names), range, &values](const std::string& word) {
    values =
        read_list<std::int64_t>(name, word, [&](std::string_view one) { return read_whole(one, range); });
  };
  const std::string note = fmt::format("{} to {} each", grouped(range.min), grouped(range.max));
  return add(names, read, with_note(text, note), "N,N,...");
}

Option Options::choice(const std::string& names, std::string& value, std::vector<std::string> allowed,
                       const std::string& text) {
  return add_choice(
      names, std::move(allowed), [&value](std::string word) { value = std::move(word); }, text, value);
}

Option Options::choice(const std::string& names, std::string& value, std::vector<std::string> allowed,
                       WholeRange numbers, const std::string& text) {
  const std::string range = fmt::format("{} to {}", grouped(numbers.min), grouped(numbers.max));
  const std::string kind = fmt::format("{}|{}", fmt::join(allowed, "|"), range);
  const std::string shown = with_note(text, "default " + value);
  const auto read = [name = name_of(names), allowed = std::move(allowed), numbers, range,
                     &value](const std::string& word) {
    if (std::ranges::find(allowed, word) == allowed.end() && !read_whole(word, numbers)) {
      usage_error("{}: expected one of {}, or a number from {}; found {}{}", name, fmt::join(allowed, ", "),
                  range, quoted_text(word), did_you_mean(word, allowed));
    }
    value = word;
  };
  return add(names, read, shown, kind);
}

Option Options::choice(const std::string& names, std::optional<std::string>& value,
                       std::vector<std::string> allowed, const std::string& text) {
  return add_choice(names, std::move(allowed), [&value](std::string word) { value = std::move(word); }, text,
                    {});
}

Option Options::text(const std::string& names, std::string& value, const std::string& description) {
  const std::string shown = value.empty() ? description : with_note(description, "default " + value);
  return add(
      names, [&value](const std::string& word) { value = word; }, shown, "TEXT");
}

Option Options::texts(const std::string& names, std::vector<std::string>& values,
                      const std::string& description) {
  CLI::Option* option = command_->add_option_function<std::vector<std::string>>(
      names, [&values](const std::vector<std::string>& words) { values = words; }, description);
  // After a name one value, so that what follows it is a position's; positions take all that there are.
  option->option_text("TEXT ...")->allow_extra_args(names.front() != '-');
  return Option(option);
}

Option Options::path(const std::string& names, std::string& value, const std::string& description) {
  const std::string shown = value.empty() ? description : with_note(description, "default " + value);
  const auto read = [name = name_of(names), &value](const std::string& word) {
    if (word.empty()) usage_error("{}: expected the name of a file or folder; found \"\"", name);
    value = word;
  };
  return add(names, read, shown, "PATH");
}

Option Options::flag(const std::string& names, bool& value, const std::string& description) {
  return Option(command_->add_flag(names, value, description));
}

void Options::ignored(const std::string& name, std::vector<std::string>& given) {
  command_
      ->add_option_function<std::string>(
          name, [&given, name](const std::string&) { given.push_back(name); }, "")
      ->expected(0, 1)
      ->group("");
}

void Options::parse(int argc, const char* const* argv) const {
  try {
    program_->parse(argc, argv);
  } catch (const CLI::Success& done) {  // help or version
    program_->exit(done);
  } catch (const CLI::ParseError& error) {
    const CLI::App* last = program_.get();
    while (!last->get_subcommands().empty()) last = last->get_subcommands().front();
    UsageError usage(usage_sentence(*last, program_->remaining(/*recurse=*/true), error));
    usage.command = named_command(*program_);
    throw usage;
  } catch (UsageError& usage) {
    usage.command = named_command(*program_);
    throw;
  }
}

}  // namespace baleen
