/// How a reply ended, from the loop that makes it to the protocol that tells its client.
#pragma once

#include <cstdint>

namespace baleen {

enum class ReplyEnd : std::uint8_t {
  kStopToken,   ///< the model ended it
  kStopString,  ///< one of the request's came
  kToolCalls,  ///< the reply has calls for the client to make; whoever sees tokens alone says how those ended
  kLength,     ///< its limit, or the context's
  kRepetition,  ///< it looped
  kCancelled,
  kFailed,
};

}  // namespace baleen
