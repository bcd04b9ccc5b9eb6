/// What is asked of a simulated deployment, request by request.
#pragma once

#include <cstdint>
#include <optional>

#include "simulator/serving/token_stream.h"

namespace baleen {

struct ServingRequest {
  std::int64_t number = 0;  ///< counts requests as they are made, from 0
  double arrival = 0;       ///< seconds
  std::int64_t prompt_tokens = 1;
  std::int64_t output_tokens = 1;  ///< the reply has as many, context permitting
  TokenStream stream;              ///< whose first tokens the prompt is, and whose next ones the reply
  std::int64_t turns_left = 0;     ///< turns of its session after this one
};

/// Not thread-safe.
class RequestSource {
 public:
  virtual ~RequestSource() = default;
  /// The next request that comes whatever happens, by rising arrival; of equal arrivals by rising number.
  /// Empty when there are no more.
  [[nodiscard]] virtual std::optional<ServingRequest> next() = 0;
  /// What comes because a request has ended at `now` (not before then): a client's next one, or a session's
  /// next turn.
  [[nodiscard]] virtual std::optional<ServingRequest> after(const ServingRequest& ended, double now) = 0;
};

}  // namespace baleen
