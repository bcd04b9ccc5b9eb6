#include "simulator/serving/deployed_server.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/number.h"
#include "device/profiled_device.h"
#include "engine/memory_plan.h"
#include "simulator/serving/estimated_step_times.h"

namespace baleen {
namespace {

/// Bytes of a rank's device for an engine with resolved options. A cache that grows until experts have to
/// leave is not what a deployment would choose.
std::int64_t rank_bytes(const RankModel& rank, const DeviceProfile& device, const EngineOptions& options) {
  const RankLoad load{.num_sequences = options.max_sequences,
                      .cached_positions = 1,
                      .step_rows = options.max_batch_tokens,
                      .logit_rows = options.max_logit_rows,
                      .num_drafts = options.max_draft_tokens,
                      .engram = options.engram,
                      .keeps_experts = true};
  const RankMemory memory = rank_memory(rank, load, device);
  return memory.total() - memory.cache() + plan_memory(rank.config(), memory.weights, options).cache_bytes();
}

std::int64_t fullest_rank_bytes(const std::vector<std::unique_ptr<RankModel>>& ranks,
                                const DeviceProfile& device, const EngineOptions& options) {
  std::int64_t most = 0;
  for (const auto& rank : ranks) {
    most = std::max(most, rank_bytes(*rank, device, resolved(options, rank->config().model())));
  }
  return most;
}

/// Far beyond what one rank's memory holds of any model.
constexpr std::int64_t kMaxSimulatedPages = std::int64_t{1} << 24;
/// Its places in pool and lists.
constexpr std::int64_t kSimulatedBytesPerPage = 64;

double gb(std::int64_t bytes) { return 1e-9 * static_cast<double>(bytes); }

}  // namespace

std::vector<std::unique_ptr<RankModel>> stage_models(const SimulatedModel& model, const ParallelPlan& plan) {
  std::vector<std::unique_ptr<RankModel>> ranks;
  for (std::int64_t stage = 0; stage < plan.pp; ++stage) {
    ranks.push_back(
        std::make_unique<RankModel>(model.config, model.formats, plan, stage_of(model.config, plan, stage)));
  }
  return ranks;
}

std::int64_t most_cache_tokens(const SimulatedModel& model, const ParallelPlan& plan,
                               const DeviceProfile& device, EngineOptions options) {
  options.engram = model.engram;
  const auto ranks = stage_models(model, plan);
  const auto bytes_with = [&](std::int64_t pages) {
    options.cache_tokens = pages * kPageTokens;
    return fullest_rank_bytes(ranks, device, options);
  };
  std::int64_t low = 1, high = model.config.max_position_embeddings * options.max_sequences / kPageTokens;
  low = std::min(options.max_sequences, high);
  if (const std::int64_t least = bytes_with(low); least > device.memory_bytes) {
    fail(
        "{} on {} needs {:.1f} GB with a page for each of {} sequences; a device has {:.1f} GB, {:.1f} GB "
        "less. Try more ‹tensor parallelism›, ‹expert parallelism› or ‹pipeline parallelism›, or fewer "
        "‹sequences› or ‹step tokens›",
        to_text(plan), device.name, gb(least), options.max_sequences, gb(device.memory_bytes),
        gb(least - device.memory_bytes));
  }
  while (low < high) {
    const std::int64_t middle = low + (high - low + 1) / 2;
    if (bytes_with(middle) <= device.memory_bytes) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low * kPageTokens;
}

ServerSetup deployed_server(const SimulatedModel& model, const ParallelPlan& plan,
                            const DeviceProfile& device, const DeployedServerOptions& options) {
  EngineOptions engine = options.engine;
  engine.device = device_like(device);
  const std::int64_t most = most_cache_tokens(model, plan, device, engine);
  if (engine.cache_tokens > most) {
    fail("‹context› {}: beside all else {} tokens fit into the {:.1f} GB of {}", engine.cache_tokens, most,
         gb(device.memory_bytes), device.name);
  }
  if (engine.cache_tokens == 0) engine.cache_tokens = most;
  if (engine.cache_tokens / kPageTokens > kMaxSimulatedPages) {
    fail(
        "a cache of {} tokens in {}: at most {} are simulated, which is {:.1f} GB of the simulator's own "
        "memory; give ‹context›",
        grouped(engine.cache_tokens), device.name, grouped(kMaxSimulatedPages * kPageTokens),
        gb(kMaxSimulatedPages * kSimulatedBytesPerPage));
  }
  auto times = std::make_shared<EstimatedStepTimes>(model, plan, device, engine.max_draft_tokens > 0,
                                                    options.imbalance, options.hash_imbalance);
  return server_setup(model.config, engine, options.scheduler, std::move(times));
}

}  // namespace baleen
