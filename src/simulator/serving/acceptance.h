/// How many drafts of a step are right.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "simulator/serving/draws.h"

namespace baleen {

class Acceptance {
 public:
  /// No draft is right.
  Acceptance() : Acceptance({}, {}, 0) {}
  /// The i-th draft of a chain is right with probability chain[i] once those before it are; of longer chains
  /// with the last one. In [0, 1], or `Error`.
  [[nodiscard]] static Acceptance of_chain(std::vector<double> chain, std::uint64_t seed);
  /// As recorded, step after step: each step takes one of the records at random. Not empty, none negative, or
  /// `Error`.
  [[nodiscard]] static Acceptance recorded(std::vector<std::int64_t> accepted, std::uint64_t seed);

  /// Of `num_drafts` after the first `reply_tokens` tokens of request `number`'s reply; the same whenever it
  /// is asked.
  [[nodiscard]] std::int64_t accepted(std::int64_t number, std::int64_t reply_tokens,
                                      std::int64_t num_drafts) const;

 private:
  Acceptance(std::vector<double> chain, std::vector<std::int64_t> recorded, std::uint64_t seed)
      : chain_(std::move(chain)), recorded_(std::move(recorded)), draws_(seed, DrawFor::kAcceptance) {}

  std::vector<double> chain_;
  std::vector<std::int64_t> recorded_;
  Draws draws_;
};

}  // namespace baleen
