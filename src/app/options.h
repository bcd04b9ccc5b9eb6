/// The command line: the one place that reads and checks its words. Every number states its range, which the
/// help and the refusals print in words; values outside it, NaN, infinities and trailing characters never
/// reach a command.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/number.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace baleen {

struct CommandDescription;

/// Wrong usage: `main` prints the sentence and ends with status 2.
class UsageError : public Error {
 public:
  using Error::Error;
  std::string command;  ///< that the command line names, as "simulate search"; set by `Options::parse`
};

/// Throws `UsageError` with a formatted sentence.
template <class... Args>
[[noreturn]] void usage_error(fmt::format_string<Args...> format, Args&&... args) {
  throw UsageError(fmt::format(format, std::forward<Args>(args)...));
}

/// An option that was added. Valid as long as the program's `Options`.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option& required();
  /// Refused unless that one is given too.
  Option& needs(const Option& other);
  /// Refused beside that one.
  Option& excludes(const Option& other);

 private:
  CLI::Option* option_;
};

/// The options of a command, or of the program with its commands. A handle: copies add to the same command.
/// Variables must outlive `parse`; their values when they are added are the defaults, which the help shows.
/// `names` are as in `--threads,-t`; names without a dash are positions. Adding throws only where the program
/// itself is wrong.
class Options {
 public:
  /// Called for `--version`, with whether `--json` stands beside it.
  using VersionText = std::function<std::string(bool as_json)>;

  /// The program.
  Options(const std::string& name, const std::string& description, VersionText version);
  /// A program without commands or version: of this repository's benchmarks.
  Options(const std::string& name, const std::string& description);

  /// A command, called by `name` after this one's own. A command that has commands can be called without one
  /// of them, the program cannot.
  Options command(const std::string& name, const std::string& description);
  /// Lines at the end of the help.
  void footer(const std::string& text);
  /// What the command does; not called where one of its own commands is named.
  void action(std::function<void()> run);
  /// The same with the options of this command that were given, each by its first long name, in the order
  /// they were added.
  void action(std::function<void(const std::vector<std::string>& given)> run);
  /// The same with what the whole program takes.
  void action(std::function<void(const CommandDescription& program)> run);

  /// T: any integer type that holds the range; with std::optional the value stays empty unless given.
  template <std::integral T>
  Option integer(const std::string& names, T& value, WholeRange range, const std::string& text) {
    check_fits<T>(range);
    return add_integer(
        names, range, [&value](std::int64_t read) { value = static_cast<T>(read); }, text,
        grouped(static_cast<std::int64_t>(value)));
  }
  template <std::integral T>
  Option integer(const std::string& names, std::optional<T>& value, WholeRange range,
                 const std::string& text) {
    check_fits<T>(range);
    return add_integer(names, range, [&value](std::int64_t read) { value = static_cast<T>(read); }, text, {});
  }
  /// The same without a default in the help, for values that stand for "not given".
  template <std::integral T>
  Option integer_without_default(const std::string& names, T& value, WholeRange range,
                                 const std::string& text) {
    check_fits<T>(range);
    return add_integer(names, range, [&value](std::int64_t read) { value = static_cast<T>(read); }, text, {});
  }
  /// Any 64-bit pattern: 0 to 2^64 - 1.
  Option seed(const std::string& names, std::uint64_t& value, const std::string& text);
  Option seed(const std::string& names, std::optional<std::uint64_t>& value, const std::string& text);
  /// Bytes, plain or with a unit: 500MB, 5GB (powers of 1000), 10GiB (of 1024).
  template <std::integral T>
  Option bytes(const std::string& names, T& value, WholeRange range, const std::string& text) {
    check_fits<T>(range);
    return add_bytes(
        names, range, [&value](std::int64_t read) { value = static_cast<T>(read); }, text,
        static_cast<std::int64_t>(value));
  }

  Option real(const std::string& names, double& value, RealRange range, const std::string& text);
  Option real(const std::string& names, std::optional<double>& value, RealRange range,
              const std::string& text);
  /// Without a default in the help.
  Option real_without_default(const std::string& names, double& value, RealRange range,
                              const std::string& text);
  /// Numbers separated by commas, each in the range; at most 64.
  Option reals(const std::string& names, std::vector<double>& values, RealRange range,
               const std::string& text);
  /// The same of whole numbers.
  Option integers(const std::string& names, std::vector<std::int64_t>& values, WholeRange range,
                  const std::string& text);

  Option choice(const std::string& names, std::string& value, std::vector<std::string> allowed,
                const std::string& text);
  Option choice(const std::string& names, std::optional<std::string>& value, std::vector<std::string> allowed,
                const std::string& text);
  /// A word, or a whole number of the range: as it was given.
  Option choice(const std::string& names, std::string& value, std::vector<std::string> allowed,
                WholeRange numbers, const std::string& text);
  /// The value that stands beside the chosen word; the default is one of them.
  template <class Value>
  Option choice(const std::string& names, Value& value,
                const std::vector<std::pair<std::string, Value>>& allowed, const std::string& text) {
    std::vector<std::string> words;
    std::string shown_default;
    for (const auto& [word, meaning] : allowed) {
      words.push_back(word);
      if (meaning == value) shown_default = word;
    }
    const auto set = [&value, allowed](const std::string& word) {
      for (const auto& [name, meaning] : allowed) {
        if (name == word) value = meaning;
      }
    };
    return add_choice(names, std::move(words), set, text, shown_default);
  }
  Option text(const std::string& names, std::string& value, const std::string& description);
  /// Each time it is given adds one.
  Option texts(const std::string& names, std::vector<std::string>& values, const std::string& description);
  /// A file or folder; the empty name is refused.
  Option path(const std::string& names, std::string& value, const std::string& description);
  Option flag(const std::string& names, bool& value, const std::string& description);
  /// Accepted with or without a value, and not in the help; its name is added to `given`.
  void ignored(const std::string& name, std::vector<std::string>& given);

  /// Reads the command line and runs the action of the command it names; prints help or version where these
  /// are given. Throws `UsageError` for wrong usage, and what the action throws.
  void parse(int argc, const char* const* argv) const;

 private:
  Options(std::shared_ptr<CLI::App> program, CLI::App* command);

  template <std::integral T>
  static void check_fits(WholeRange range) {
    BALEEN_CHECK(std::in_range<T>(range.min) && std::in_range<T>(range.max) && range.min <= range.max);
  }
  using TextReader = std::function<void(const std::string&)>;
  Option add(const std::string& names, const TextReader& read, const std::string& text,
             const std::string& kind);
  Option add_integer(const std::string& names, WholeRange range, std::function<void(std::int64_t)> set,
                     const std::string& text, const std::string& shown_default);
  Option add_bytes(const std::string& names, WholeRange range, std::function<void(std::int64_t)> set,
                   const std::string& text, std::int64_t shown_default);
  Option add_real(const std::string& names, RealRange range, std::function<void(double)> set,
                  const std::string& text, const std::string& shown_default);
  Option add_choice(const std::string& names, std::vector<std::string> allowed,
                    std::function<void(std::string)> set, const std::string& text,
                    const std::string& shown_default);

  std::shared_ptr<CLI::App> program_;
  CLI::App* command_;
};

}  // namespace baleen
