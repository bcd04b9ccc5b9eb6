/// A deployment that serves a workload, event by event on virtual time.
///
///     one pool     arrivals ──► server ──► ended
///     two pools    arrivals ──► server ──► first token ──► link ──► server ──► ended
///                               prefill                             decode
///
/// Events: a request arrives, a transfer ends, a server's step ends. Of equal times in this order, then by
/// number; and a server begins its next step after all events of that moment. So a run repeats exactly.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "simulator/serving/request_source.h"
#include "simulator/serving/serving_record.h"
#include "simulator/serving/simulated_server.h"

namespace baleen {

/// Between the pools of prefill and decode. One transfer after the other has the bandwidth; latencies
/// overlap.
struct TransferLink {
  double bytes_per_second = 0;  ///< > 0
  double latency_seconds = 0;   ///< >= 0, of each transfer
};

/// Bytes of the cache that must move for another instance to go on after `num_tokens` tokens: compressed
/// entries, index keys, the rows of the last window, unfinished compressor rows.   (source: simulation 3)
[[nodiscard]] std::int64_t transfer_bytes(const CacheGeometry& geometry, std::int64_t num_tokens);

struct ServingOptions {
  ServerSetup server;  ///< the only one, or the one that prefills
  std::optional<ServerSetup> decode;
  TransferLink link;                   ///< with `decode`
  Acceptance acceptance;               ///< of drafts
  double patience_seconds = kForEver;  ///< of clients, from arrival to first token
  /// Steps that must be alike are taken at once; the result is the same without.
  bool skip_ahead = true;
  std::function<void(std::int64_t num_ended)> on_progress;  ///< every few thousand requests; may be none
};

/// Until every request has ended. Throws `Error` for options that make no sense.
[[nodiscard]] ServingResult simulate_serving(const ServingOptions& options, RequestSource& workload);

}  // namespace baleen
