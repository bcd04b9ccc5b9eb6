#include "engine/expert_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/size_text.h"
#include "engine/engine_limits.h"
#include "model/device_weights.h"
#include "moe/residence/expert_block.h"
#include "moe/residence/expert_store.h"

namespace baleen {
namespace {

ExpertCounts counts_of(const MovableExperts& experts, std::int64_t num_away) {
  ExpertCounts counts = experts.counts;
  counts.num_on_host = num_away;
  counts.num_slots = experts.in_place ? 0 : suitable_slots(counts);
  return counts;
}

std::int64_t device_bytes(const MovableExperts& experts, const ExpertCounts& counts) {
  return experts.bytes_beside + ExpertStore::device_bytes(counts, experts.block_bytes);
}

/// The fewest experts away with which the weights take at most `room`; all of them, if they never do.
std::int64_t fewest_away(const MovableExperts& experts, std::int64_t room) {
  const std::int64_t num_experts = experts.counts.num_in_all();
  // The more are away the less on the device, buffers for copies and slots apart, which grow by two blocks
  // or one for each `num_blocks`.
  std::int64_t num_away = std::clamp<std::int64_t>(
      num_experts - (room - experts.bytes_beside) / experts.block_bytes, 0, num_experts);
  while (num_away < num_experts && device_bytes(experts, counts_of(experts, num_away)) > room) ++num_away;
  return num_away;
}

/// `MovableExperts::staying`
BlockRange staying_experts(const RankConfig& rank, const EngineOptions& options) {
  return {rank.num_layers(), options.drafts ? rank.num_blocks() : rank.num_layers()};
}

/// What wants all experts of a rank in its GPU's memory; empty: nothing does.
std::string why_all_on_gpu(const EngineOptions& options) {
  if (options.balance.enabled) return "‹balancing› moves experts from one GPU's memory to another's";
  if (options.parallel.dual_batch_overlap)
    return "‹micro-batch overlap› would copy experts of the host twice a step";
  return "";
}

}  // namespace

MovableExperts movable_experts(const ModelConfig& config, const StorageFormats& formats,
                               const EngineOptions& options) {
  const BlockRange staying = staying_experts(config, options);
  return {.counts = {.num_blocks = config.num_hidden_layers,
                     .num_experts = config.n_routed_experts,
                     .num_selected = config.num_experts_per_tok},
          .block_bytes = ExpertBlock(config, formats.experts).bytes(),
          .staying = staying,
          .bytes_beside = device_weight_bytes(config, formats, staying),
          .in_place = formats.experts == WeightFormat::kBF16};
}

MovableExperts movable_experts(const RankConfig& rank, const WeightTree& tree, const ParallelPlan& plan,
                               const EngineOptions& options) {
  const std::vector<ExpertWeights>& routed = tree.blocks.front().moe.routed;
  const BlockRange staying = staying_experts(rank, options);
  return {.counts = {.num_blocks = rank.num_layers(),
                     .num_experts = std::ssize(routed),
                     .num_selected = rank.model().num_experts_per_tok,
                     .num_routed = rank.model().n_routed_experts,
                     .num_groups = plan.dp},
          .block_bytes = ExpertBlock(routed.front()).bytes(),
          .staying = staying,
          .bytes_beside = device_weight_bytes(tree, staying),
          .in_place = routed.front().w1.format == WeightFormat::kBF16,
          .num_sharing = plan.num_devices};
}

std::optional<Failure> leave_experts_to_host(MemoryPlan& plan, const MovableExperts& experts,
                                             const EngineOptions& options, std::int64_t free_bytes) {
  const DeviceTraits device = device_traits(options);
  if (device.shares_host_memory) {
    if (!options.gpu_weight_bytes && !options.host_expert_bytes) return std::nullopt;
    return failure(
        "‹GPU weight bytes› and ‹host expert bytes› are for a GPU: on {} the weights lie in the host's "
        "memory anyway",
        device_name(options.device));
  }
  const std::int64_t room = std::min(free_bytes - (plan.total_bytes() - plan.weight_bytes),
                                     options.gpu_weight_bytes.value_or(plan.weight_bytes));
  if (plan.weight_bytes <= room) return std::nullopt;
  if (const std::string why = why_all_on_gpu(options); !why.empty()) {
    return failure(
        "the weights take {}, where {} are left for them, and {}; leave it out, or try more GPUs or a "
        "smaller ‹context›, ‹chunk› or ‹sequences›",
        size_text(plan.weight_bytes), size_text(room), why);
  }
  const std::int64_t num_experts = experts.counts.num_in_all();
  const std::int64_t num_away = fewest_away(experts, room);
  const std::int64_t taken = device_bytes(experts, counts_of(experts, num_away));
  if (taken > room) {
    return failure(
        "the weights that have to be on the GPU take {}, where {} are left for weights: all but the routed "
        "experts{}, and buffers for copies of two layers' experts; try a smaller ‹context›, ‹chunk› or "
        "‹sequences›, or a larger ‹GPU weight bytes›",
        size_text(taken), size_text(room),
        experts.staying.empty() ? "" : " of layers (‹draft depth› 0 leaves out those of the draft head)");
  }
  ExpertCounts placed = counts_of(experts, num_away);
  const auto host_bytes = [&] { return ExpertStore::host_bytes(placed, experts.block_bytes); };
  const std::int64_t wanted = host_bytes();
  const std::int64_t most_on_host =
      options.host_expert_bytes ? *options.host_expert_bytes / experts.num_sharing : wanted;
  // What the host's memory does not hold stays on disk. A store with experts there needs room to read them.
  while (host_bytes() > most_on_host && placed.num_on_host > 0) {
    const std::int64_t excess = host_bytes() - most_on_host;
    const std::int64_t moved =
        std::min(placed.num_on_host, std::max<std::int64_t>(1, excess / experts.block_bytes));
    placed.num_on_host -= moved;
    placed.num_on_disk += moved;
  }
  if (host_bytes() > most_on_host || (experts.in_place && placed.num_on_disk > 0)) {
    return failure(
        "{} of {} routed experts do not fit on the GPU, where {} are left for weights; in pinned memory of "
        "the host they take {}, and ‹host expert bytes› allows {}{}. {}",
        num_away, num_experts, size_text(room), size_text(wanted), size_text(most_on_host),
        experts.num_sharing > 1 ? fmt::format(" for each of {} ranks", experts.num_sharing) : "",
        experts.in_place ? "BF16 experts are not read from disk"
                         : fmt::format("To read them from disk takes {} there", size_text(host_bytes())));
  }
  plan.weight_bytes = device_bytes(experts, placed);
  plan.experts = placed;
  plan.host_expert_bytes = host_bytes();
  plan.disk_expert_bytes = placed.num_on_disk * experts.block_bytes;
  return std::nullopt;
}

}  // namespace baleen
