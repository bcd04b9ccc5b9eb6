/// Errors are values where they are expected and one exception type where an operation cannot go on.
///
/// `Error` ends loading or start-up: bad checkpoint, bad option, no memory. It is thrown below and caught in
/// `app/`, which prints the sentence and exits with status 1. Its text says what, where, expected, found and
/// what to try. `Result<T>` carries an expected failure (a malformed completion, a full pool) back to the
/// caller.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

namespace baleen {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A device that nothing works on any more (an illegal address, a launch that failed): whoever uses it should
/// end in order.
class LostDevice : public Error {
 public:
  using Error::Error;
};

/// Throws `Error` with a formatted sentence.
template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

/// The sentence of an expected failure.
struct Failure {
  std::string message;
};

/// Formats a `Failure`, to be returned where a `Result` is expected.
template <class... Args>
[[nodiscard]] Failure failure(fmt::format_string<Args...> format, Args&&... args) {
  return Failure{fmt::format(format, std::forward<Args>(args)...)};
}

/// Either a `T` or the sentence that says why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Failure failed) : state_(std::in_place_index<1>, std::move(failed)) {}

  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  /// Only after `ok()`.
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }

  /// Only after `!ok()`.
  [[nodiscard]] const std::string& error() const { return std::get<1>(state_).message; }

 private:
  std::variant<T, Failure> state_;
};

}  // namespace baleen
