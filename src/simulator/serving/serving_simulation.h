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

/// Minutes: a step counts 50 and each sequence in it 1, as they take time.
inline constexpr std::int64_t kMaxServingWork = 1'000'000'000;
/// Virtual time beyond it, 300 years, leaves no digits of a double for the times of steps.
inline constexpr double kMaxServingSeconds = 1e10;

struct ServingOptions {
  ServerSetup server;  ///< the only one, or the one that prefills
  std::optional<ServerSetup> decode;
  TransferLink link;                   ///< used with `decode`
  Acceptance acceptance;               ///< how often drafts are right
  double patience_seconds = kForEver;  ///< how long clients wait from arrival to first token
  /// Steps that must be alike are taken at once; the result is the same without.
  bool skip_ahead = true;
  /// Of work, in steps and in sequences of a step: more end the simulation with an `Error`.
  std::int64_t most_work = kMaxServingWork;
  std::function<void(std::int64_t num_ended)> on_progress;  ///< every few thousand requests; may be none
};

/// Until every request has ended. Throws `Error` for options that make no sense, beyond `most_work` and
/// beyond `kMaxServingSeconds` of virtual time.
[[nodiscard]] ServingResult simulate_serving(const ServingOptions& options, RequestSource& workload);

}  // namespace baleen
