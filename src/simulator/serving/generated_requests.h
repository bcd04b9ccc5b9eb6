/// Requests by distributions: when they come, how long they are, what they share.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "simulator/serving/draws.h"
#include "simulator/serving/request_source.h"

namespace baleen {

/// Log-normal with that mean and coefficient of variation (standard deviation by mean), rounded, at least 1.
struct LengthDistribution {
  double mean = 1;
  double variation = 0;  ///< 0: always the mean
  [[nodiscard]] std::int64_t draw(const Draws& draws, std::int64_t number) const;
};

/// Tokens of one request.
struct RequestLengths {
  std::int64_t prompt_tokens = 1, output_tokens = 1;
};

struct GeneratedRequestsOptions {
  std::int64_t num_requests = 1000;  ///< all turns of all sessions
  std::uint64_t seed = 0;

  /// Sessions a second: the gaps between them are gamma-distributed. 0: a closed loop of `clients`.
  double rate = 0;
  double burstiness = 1;  ///< shape of the gamma distribution: 1 is a Poisson process, less comes in bursts
  std::int64_t clients = 1;  ///< each has one request under way, and a next one as soon as it has ended

  LengthDistribution prompt, output;
  /// Instead of the distributions: these in turn, again and again.
  std::vector<RequestLengths> lengths;

  /// Prompts begin with `family_tokens` more, the same for all sessions of a family; every session is of a
  /// random one.
  std::int64_t families = 1, family_tokens = 0;
  /// A session's requests: each prompt is the one before, its reply, and new tokens as drawn.
  std::int64_t turns = 1;
  double think_seconds =
      0;  ///< mean of the exponentially distributed time from an end to the next turn or request
  /// Sessions end before a prompt would be longer.
  std::int64_t most_prompt_tokens = std::int64_t{1} << 40;
};

/// Throws `Error` for options that make no sense.
void check(const GeneratedRequestsOptions& options);
/// The same.
[[nodiscard]] std::unique_ptr<RequestSource> make_generated_requests(GeneratedRequestsOptions options);

}  // namespace baleen
