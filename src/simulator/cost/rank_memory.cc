#include "simulator/cost/rank_memory.h"

#include <algorithm>
#include <limits>

#include "device/profiled_device.h"
#include "engine/engram_memory.h"
#include "engine/expert_memory.h"
#include "engine/memory_plan.h"
#include "model/device_weights.h"
#include "numeric/block_scale.h"

namespace baleen {

std::int64_t RankMemory::total() const {
  std::int64_t sum = 0;
  for (const auto& [name, bytes] : parts()) sum += bytes;
  return sum;
}

std::vector<std::pair<std::string_view, std::int64_t>> RankMemory::parts() const {
  return {{"weights", weights},
          {"pages", pages},
          {"window pages", window_pages},
          {"compressor state", compressor_state},
          {"activations", activations},
          {"scratch", scratch},
          {"logits", logits},
          {"messages", communication},
          {"n-grams", engram},
          {"reserved", reserved}};
}

RankLoad rank_load(const RankBatch& batch, const Workload& workload, EngramWish engram) {
  RankLoad load{.num_sequences = std::ssize(batch),
                .step_rows = num_rows(batch),
                .logit_rows = num_logit_rows(batch),
                .num_drafts = workload.decode ? workload.num_drafts : 0,
                .engram = engram};
  for (const QueryPart& part : batch)
    load.cached_positions = std::max(load.cached_positions, part.start + part.num_tokens);
  return load;
}

namespace {

/// What the profile leaves of a device to a plan that needs `message_bytes` besides. What the profile
/// reserves takes the place of the engine's own overhead.
std::int64_t free_bytes(const MemoryPlan& plan, const DeviceProfile& device, std::int64_t message_bytes) {
  return device.memory_bytes - device.reserved_bytes + plan.overhead_bytes - message_bytes;
}

/// What the engine would leave to the host's memory of `plan`, which is of one rank's device and leaves
/// `message_bytes` of it for messages.
void leave_experts_to_host(MemoryPlan& plan, const RankModel& model, EngineOptions options,
                           const DeviceProfile& device, std::int64_t message_bytes) {
  if (device.is_cpu || device.memory_levels.empty()) return;
  const MemoryLevel& host = device.memory_levels.front();
  if (device.most_weight_bytes > 0) options.gpu_weight_bytes = device.most_weight_bytes;
  if (host.bytes > 0) options.host_expert_bytes = host.bytes;
  const MovableExperts experts = movable_experts(model.config(), model.weights(), model.plan(), options);
  // Without room the plan stays as it is, and does not fit; so does one that reads from a disk of which
  // nothing is known.
  MemoryPlan left = plan;
  const bool has_disk = device.memory_levels.size() > 1;
  if (!baleen::leave_experts_to_host(left, experts, options, free_bytes(plan, device, message_bytes)) &&
      (has_disk || left.experts.num_on_disk == 0))
    plan = left;
}

/// Where the engine would have the tables of `plan`, when its experts are placed. Ranks of a host share a
/// copy there.
void place_tables(MemoryPlan& plan, const RankModel& model, const EngineOptions& options,
                  const DeviceProfile& device, std::int64_t message_bytes) {
  if (!plan.engram_place) return;
  std::int64_t free_on_host = 0;
  if (!device.memory_levels.empty()) {
    const std::int64_t bytes = device.memory_levels.front().bytes;
    free_on_host = bytes == 0 ? std::numeric_limits<std::int64_t>::max()
                              : bytes - model.plan().num_devices * plan.host_weight_bytes();
  }
  const bool has_disk = device.memory_levels.size() > 1;
  const auto failed = place_engram(plan, model.config().model(), options,
                                   free_bytes(plan, device, message_bytes), free_on_host);
  if (failed || (plan.engram_place == EngramPlace::kDisk && !has_disk)) {
    plan.engram_place = EngramPlace::kDevice;
    plan.engram_bytes += plan.engram_table_bytes;
  }
}

/// Rows on their way to experts and back, of all who may send at once; partial sums of an all-reduce.
std::int64_t message_bytes(const RankModel& model, const RankLoad& load) {
  const ModelConfig& c = model.config().model();
  const ParallelPlan& spread = model.plan();
  if (spread.stage_ranks() == 1) return 0;
  const std::int64_t row_bytes = c.hidden_size + c.hidden_size / kWeightBlock + 2 * c.hidden_size;
  const std::int64_t assignments = load.step_rows * spread.dp * c.num_experts_per_tok / spread.ep;
  const std::int64_t batches = spread.dual_batch_overlap ? 2 : 1;
  const std::optional<DispatchWay> way = model.layout().expert_transport().way;
  std::int64_t moved = assignments * row_bytes;
  if (way && *way != DispatchWay::kAssignments) {
    // All tokens of the stage with their ids and weights; outputs of assignments, or sums of all tokens.
    const std::int64_t tokens = load.step_rows * spread.dp;
    const std::int64_t token_bytes = 2 * c.hidden_size + 8 * c.num_experts_per_tok;
    moved = tokens * token_bytes +
            (*way == DispatchWay::kGatheredTokens ? 4 * tokens * c.hidden_size : assignments * row_bytes);
  }
  return batches * moved + 4 * load.step_rows * c.hidden_size;
}

}  // namespace

RankMemory rank_memory(const RankModel& model, const RankLoad& load, const DeviceProfile& device) {
  EngineOptions options;
  options.device = device_like(device);
  const ModelConfig& config = model.config().model();
  options.max_batch_tokens = std::max(load.step_rows, load.logit_rows);
  if (load.num_drafts > 0)
    options.max_batch_tokens = std::max(options.max_batch_tokens, config.dspark.block_size);
  options.max_logit_rows = load.logit_rows;
  options.max_sequences = load.num_sequences;
  options.cache_tokens = load.num_sequences * std::max<std::int64_t>(1, load.cached_positions);
  options.max_draft_tokens = model.config().num_draft_blocks() > 0 ? load.num_drafts : 0;
  options.engram = load.engram;
  const std::int64_t weights = model.weight_bytes();
  const EngineOptions full = resolved(options, config);
  MemoryPlan plan = plan_memory(model.config(), weights, full);
  const std::int64_t messages = message_bytes(model, load);
  if (!load.keeps_experts) leave_experts_to_host(plan, model, full, device, messages);
  place_tables(plan, model, full, device, messages);
  return {.weights = plan.host_weight_bytes() + plan.disk_expert_bytes > 0 ? plan.weight_bytes : weights,
          .pages = plan.page_bytes,
          .window_pages = plan.window_bytes,
          .compressor_state = plan.state_bytes,
          .activations = plan.activation_bytes,
          .scratch = plan.scratch_bytes,
          .logits = plan.logit_bytes,
          .communication = messages,
          .engram = plan.engram_bytes,
          .reserved = device.reserved_bytes,
          .experts = plan.experts,
          .host_expert_bytes = plan.host_expert_bytes,
          .disk_expert_bytes = plan.disk_expert_bytes,
          .host_embedding_bytes = plan.host_embedding_bytes,
          .engram_place = plan.engram_place,
          .engram_table_bytes = plan.engram_table_bytes};
}

}  // namespace baleen
