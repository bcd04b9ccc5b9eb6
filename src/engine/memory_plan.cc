#include "engine/memory_plan.h"

#include <algorithm>

#include "drafts/draft_head.h"
#include "engine/engine_limits.h"
#include "engine/engram_memory.h"
#include "engine/main_pass.h"
#include "forward/forward.h"
#include "model/device_weights.h"
#include "ops/experts/experts.h"
#include "ops/grouped_linear/grouped_linear.h"
#include "ops/linear/linear.h"
#include "ops/matmul/int8_copies.h"

namespace baleen {

namespace {

/// Of a device without weights of its own: what variants named `int8` copy, once all of them have run.
std::int64_t int8_copies(const RankConfig& rank, const StorageFormats& formats,
                         const EngineOptions& options) {
  if (!is_fp8(formats.dense)) return 0;
  const auto is_copied = [&](const TensorSpec& tensor) {
    if (tensor.storage != Storage::kDense || (rank.is_draft_block(tensor.block) && !options.drafts))
      return false;
    const std::string_view operation = tensor.role == TensorRole::kSharedExpert ? ops::Experts::kName
                                       : tensor.split == TensorSplit::kOutputGroups
                                           ? ops::GroupedLinear::kName
                                           : ops::Linear::kName;
    return forces(options.forced_variants, operation, kInt8Variant);
  };
  std::int64_t bytes = 0;
  for (const TensorSpec& tensor : rank_table(rank)) {
    if (is_copied(tensor)) bytes += int8_copy_bytes(tensor.num_elements());
  }
  return bytes;
}

/// Pages, window pages and state slots.
void plan_cache(MemoryPlan& plan, const CacheGeometry& geometry, const EngineOptions& options) {
  const std::int64_t own_window_pages =
      max_window_pages(geometry, options.max_sequences, options.max_batch_tokens);
  CacheCapacity& capacity = plan.capacity;
  // Every sequence may leave its last page part empty.
  capacity.num_pages = pages_for(options.cache_tokens) + options.max_sequences - 1;
  capacity.num_window_pages = std::min(capacity.num_pages, own_window_pages + options.cached_window_pages);
  capacity.num_state_slots = options.max_sequences;
  plan.cached_window_pages = std::max<std::int64_t>(0, capacity.num_window_pages - own_window_pages);
  plan.page_bytes = capacity.num_pages * geometry.page_bytes();
  plan.window_bytes = capacity.num_window_pages * geometry.window_page_bytes();
  plan.state_bytes = capacity.num_state_slots * geometry.state_slot_bytes();
}

}  // namespace

MemoryPlan plan_memory(const RankConfig& rank, const StorageFormats& formats, const EngineOptions& options) {
  if (!device_traits(options).shares_host_memory)
    return plan_memory(rank, device_weight_bytes(rank, formats), options);
  MemoryPlan plan = plan_memory(rank, 0, options);
  plan.int8_copy_bytes = int8_copies(rank, formats, options);
  if (formats.made) plan.weight_bytes = device_weight_bytes(rank, formats);
  return plan;
}

MemoryPlan plan_memory(const RankConfig& rank, std::int64_t weight_bytes, const EngineOptions& options) {
  const ModelConfig& config = rank.model();
  const DeviceTraits device = device_traits(options);
  MemoryPlan plan;
  plan_cache(plan, cache_geometry(rank, options), options);
  plan.activation_bytes =
      forward_buffer_bytes(rank, device.padded_rows(buffered_rows(options)), device.activation_type);
  plan.activation_bytes += MainPass::buffer_bytes(config, options.max_logit_rows, 0, device.activation_type);
  plan.activation_bytes += Arena::bytes_for<TokenId>(options.max_logit_rows);  // those that are chosen
  if (options.drafts)
    plan.activation_bytes += options.draft_head->traits(rank, draft_sizes(options)).buffer_bytes;
  const std::int64_t max_positions =
      std::min(config.max_position_embeddings, plan.capacity.num_pages * kPageTokens);
  plan.max_table_pages = pages_for(max_positions);
  plan.scratch_bytes =
      scratch_bytes(device, step_shape(rank, device.padded_rows(options.max_batch_tokens),
                                       options.max_logit_rows, options.max_sequences, max_positions));
  plan.why_not_scratch = why_not_scratch(device);
  plan_engram(plan, rank, options);
  plan.logit_bytes =
      (options.drafts ? 2 : 1) * Arena::bytes_for<float>(options.max_logit_rows * config.vocab_size);
  if (!device.shares_host_memory) {
    plan.weight_bytes = weight_bytes;
    plan.overhead_bytes = device.overhead_bytes;
    plan.host_logit_bytes = plan.logit_bytes;
  }
  return plan;
}

MemoryPlan plan_rank_memory(const ModelConfig& config, std::int64_t weight_bytes, const RankLayout& layout,
                            const EngineOptions& options) {
  const ParallelPlan& parallel = layout.plan();
  const RankConfig own = rank_config(config, parallel, layout.stage());
  MemoryPlan plan = plan_memory(own, weight_bytes, options);
  const DeviceTraits device = device_traits(options);
  // Of BF16 checkpoints, which have nothing to copy, too much.
  if (device.shares_host_memory) plan.int8_copy_bytes = int8_copies(own, StorageFormats(), options);
  if (parallel.shares_rows()) {
    plan.activation_bytes += MainPass::buffer_bytes(config, 0, device.padded_rows(options.max_batch_tokens),
                                                    device.activation_type);
  }
  plan.message_bytes =
      message_buffer_bytes(own, layout, device.padded_rows(buffered_rows(options)), device.activation_type);
  if (!device.shares_host_memory) {
    plan.scratch_bytes += split_experts_scratch_bytes(
        device.padded_rows(options.max_batch_tokens), config.num_experts_per_tok, config.hidden_size,
        own.num_experts(), {own.share().moe_tp > 1, own.share().shared_tp > 1});
  }
  const std::optional<DispatchWay> way = layout.expert_transport().way;
  if (!way) return plan;
  // At worst this rank's experts get every assignment of the stage, a row each.
  StepShape arrived = step_shape(own, 0, options.max_logit_rows, options.max_sequences, 1);
  arrived.max_rows = layout.most_arriving_rows(options.max_batch_tokens, config.num_experts_per_tok);
  arrived.hc_mult = 1;
  if (*way != DispatchWay::kGatheredTokens) arrived.num_experts_per_tok = 1;
  if (!device.shares_host_memory) {
    // Kernels dispatch a step's rows to the places of their experts themselves.
    arrived = step_shape(own, layout.most_arriving_rows(device.padded_rows(options.max_batch_tokens), 1),
                         options.max_logit_rows, options.max_sequences,
                         std::min(config.max_position_embeddings, plan.capacity.num_pages * kPageTokens));
  }
  plan.scratch_bytes = std::max(plan.scratch_bytes, scratch_bytes(device, arrived));
  return plan;
}

}  // namespace baleen
