/// A serving simulation in figures: what users of the deployment feel, and what it does with its machines.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "simulator/serving/serving_record.h"

namespace baleen {

/// Seconds. Quantiles by nearest rank; all 0 when there is nothing to tell of.
struct Distribution {
  double mean = 0, p50 = 0, p90 = 0, p99 = 0;
};

/// What a reply must keep to be of use.
struct ServiceLimits {
  std::optional<double> first_token_seconds;       ///< from arrival
  std::optional<double> per_output_token_seconds;  ///< the reply's mean after its first token
};

struct ServingFigures {
  std::int64_t requests = 0, finished = 0, turned_away = 0, abandoned = 0, refused = 0;
  double seconds = 0;  ///< from the first arrival to the last end

  // Of finished requests.
  Distribution queue;             ///< arrival to first admission
  Distribution first_token;       ///< arrival to first token
  Distribution per_output_token;  ///< (end - first token) / (tokens - 1), of replies of several tokens
  Distribution end_to_end;        ///< arrival to last token
  Distribution
      between_tokens;  ///< gaps as they arrive, off by 1/256 at most; tokens of one step come together

  std::int64_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;
  std::int64_t drafted_tokens = 0, accepted_tokens = 0, preemptions = 0;

  ServiceLimits limits;
  std::int64_t within_limits = 0;  ///< finished requests

  std::vector<ServerRecord> servers;  ///< one; or prefill, then decode
  std::string first_refusal;

  [[nodiscard]] double per_second(std::int64_t count) const {
    return seconds > 0 ? static_cast<double>(count) / seconds : 0;
  }
};

/// Takes the result over: nothing of it is copied.
[[nodiscard]] ServingFigures figures_of(ServingResult&& result, const ServiceLimits& limits);

/// "server" where there is one; of two, "prefill" and "decode".
[[nodiscard]] const char* server_name(std::size_t i, std::size_t count);

/// A page of text.
[[nodiscard]] std::string to_text(const ServingFigures& figures);
/// Times in seconds, shares of 1.
[[nodiscard]] nlohmann::ordered_json to_json(const ServingFigures& figures);

}  // namespace baleen
