/// Random numbers that follow from a seed, a purpose and a number, not from the order in which they are
/// drawn.
#pragma once

#include <cstdint>

namespace baleen {

/// What a number is drawn for: purposes never share one.
enum class DrawFor : std::uint64_t {
  kArrival,
  kPromptTokens,
  kOutputTokens,
  kFamily,
  kThinking,
  kAcceptance
};

class Draws {
 public:
  Draws(std::uint64_t seed, DrawFor purpose);

  /// In [0, 1).
  [[nodiscard]] double uniform(std::uint64_t number) const;
  /// Mean 1.
  [[nodiscard]] double exponential(std::uint64_t number) const;
  /// Mean 0, variance 1.
  [[nodiscard]] double normal(std::uint64_t number) const;
  /// Mean 1, variance 1 / shape; shape > 0. By Marsaglia and Tsang's method.
  [[nodiscard]] double gamma(std::uint64_t number, double shape) const;

 private:
  std::uint64_t seed_;
};

}  // namespace baleen
