/// The ranks of a model, wherever they are: they execute what they are called to do and reply.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "device/device.h"
#include "engine/engine_options.h"
#include "rank_engine/rank_call.h"

namespace baleen {

/// The ranks are lost: one failed or did not answer, so that no further step can be run.
class LostRanks : public LostDevice {
 public:
  using LostDevice::LostDevice;
};

/// Not thread-safe: one caller.
class RankTeam {
 public:
  virtual ~RankTeam() = default;

  /// The replies of all ranks, by rank; empty ones of groups that are not called. Throws `LostRanks` with a
  /// sentence that names the rank which failed or is missing; nothing can be called afterwards.
  [[nodiscard]] virtual const std::vector<RankReply>& call(const RankCall& call) = 0;

  /// Of the first rank, which is in this process.
  [[nodiscard]] virtual RankWorker& first() = 0;
  /// Where the ranks are, for people: "2 ranks as threads of this process".
  [[nodiscard]] virtual std::string place() const = 0;
  /// Weights that ranks of this process copied.
  [[nodiscard]] virtual std::int64_t copied_weight_bytes() const = 0;
};

/// Rank `rank` of `plan`, which is resolved.
[[nodiscard]] RankLayout layout_of_rank(const ModelConfig& config, const ParallelPlan& plan,
                                        std::int64_t rank);

/// Options of rank `rank`: its share of `options.num_threads`, which `num_ranks` of one machine divide.
[[nodiscard]] EngineOptions options_of_rank(const EngineOptions& options, std::int64_t num_ranks,
                                            std::int64_t rank);

/// ", messages by NCCL"; empty where they go as usual.
[[nodiscard]] std::string_view messages_text(const EngineOptions& options);

}  // namespace baleen
