#include "engine/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "drafts/draft_head.h"
#include "drafts/heads/draft_heads.h"
#include "forward/forward.h"
#include "model/cache_geometry.h"
#include "model/device_weights.h"
#include "ops/experts/experts.h"
#include "ops/grouped_linear/grouped_linear.h"
#include "ops/linear/linear.h"
#include "ops/matmul/int8_copies.h"
#include "parallel/thread_pool.h"

namespace baleen {
namespace {

/// A step that is taken back must not reach past the last shared page's window.
constexpr std::int64_t kMaxDraftTokens = 64;

/// Whether kernels can gather the logits of a vocabulary in `parts`: each is whole vectors of 16 bytes.
bool gathers_vocabulary(const ModelConfig& config, std::int64_t parts) {
  constexpr std::int64_t kVector = 4;  // float32 values
  const std::int64_t part = (config.vocab_size + parts - 1) / parts;
  return parts == 1 || (part % kVector == 0 && config.vocab_size % kVector == 0);
}

DeviceTraits traits_of(const EngineOptions& options) {
  return device_traits(options.device, options.num_threads);
}

/// What kernels of ranks cannot do so far.
void check_gpu_ranks(const EngineOptions& options, const ModelConfig& config, const std::string& ranks) {
  const ParallelPlan& plan = options.parallel;
  if (std::ssize(options.rank_devices) != plan.num_devices) {
    fail("{}: {} ranks, but --devices names {} GPUs; it wants one for each rank, as --devices 0,1", ranks,
         plan.num_devices, options.rank_devices.size());
  }
  if (!gathers_vocabulary(config, plan.lmhead_tp)) {
    fail(
        "--lmhead-tp {}: GPUs gather logits 16 bytes at a time, and {} of them are not cut into such parts; "
        "--lmhead-tp 1",
        plan.lmhead_tp, config.vocab_size);
  }
  if (plan.moe_tp > 1 && !expert_transport(plan, traits_of(options)).adds_sums) {
    fail(
        "--moe-tp {}: GPUs split an expert's inner width where all ranks of a stage have the same tokens "
        "(--tp {} alone) and experts lie linearly; leave it out, or --ep {}",
        plan.moe_tp, plan.stage_ranks(), plan.stage_ranks());
  }
}

/// How messages go and how rows get to experts name each other: who says one thing says both.
void settle_messages(EngineOptions& options) {
  ParallelPlan& plan = options.parallel;
  const bool on_gpus = !options.device.is_cpu();
  if (options.messages != GpuMessages::kAutomatic && (!on_gpus || plan.is_one_rank())) {
    fail("--messages is for GPUs of several ranks; {}: leave it out",
         on_gpus ? "there is one" : "these ranks are on processors");
  }
  if (!on_gpus || plan.is_one_rank()) return;
  const bool names_nccl = plan.expert_transport == ExpertTransport::kNccl;
  const bool names_peers = plan.expert_transport == ExpertTransport::kPeerMemory ||
                           plan.expert_transport == ExpertTransport::kFused;
  if (options.messages == GpuMessages::kAutomatic)
    options.messages = names_nccl ? GpuMessages::kNccl : GpuMessages::kPeerMemory;
  const bool by_nccl = options.messages == GpuMessages::kNccl;
  if (by_nccl ? names_peers : names_nccl) {
    fail("--messages {} and --expert-transport {}: all messages of a service go one way; leave out one",
         by_nccl ? "nccl" : "peer-memory", expert_transport(plan, traits_of(options)).name);
  }
  const bool automatic = plan.expert_transport == ExpertTransport::kAutomatic;
  if (by_nccl && automatic && expert_transport(plan, traits_of(options)).way)
    plan.expert_transport = ExpertTransport::kNccl;
}

/// Throws where ranks cannot do what the options want.
void check_ranks(const EngineOptions& options, const ModelConfig& config) {
  const ParallelPlan& plan = options.parallel;
  if (const auto refused = transport_violation(plan, traits_of(options))) fail("{}", *refused);
  if (plan.is_one_rank()) return;
  check_runnable(plan, config);
  const std::string ranks = to_text(plan);
  if (!options.device.is_cpu()) check_gpu_ranks(options, config, ranks);
  if (options.disk)
    fail("{}: pages of several ranks are not kept on disk so far; leave out --cache-dir", ranks);
  if (plan.o_proj_tp > plan.tp) {
    fail(
        "--o-proj-tp {}: over more ranks than --tp {} every data-parallel group would need as many tokens in "
        "each step; {} at most",
        plan.o_proj_tp, plan.tp, plan.tp);
  }
  if (!plan.dual_batch_overlap) return;
  if (const auto refused = overlap_violation(plan)) fail("{}", *refused);
}

/// After the other options.
void settle_draft_head(EngineOptions& options, const ModelConfig& config) {
  if (!options.drafts) return;
  if (options.draft_head == nullptr) options.draft_head = draft_head_of(config);
  if (options.draft_head == nullptr) fail("this model has no draft head to run");
  const std::int64_t most = options.draft_head->traits(config, draft_sizes(options)).most_tokens;
  if (options.max_draft_tokens > most) {
    fail("draft tokens: {} wanted, the {} drafts {} at most", options.max_draft_tokens,
         options.draft_head->title, most);
  }
}

}  // namespace

DraftSizes draft_sizes(const EngineOptions& options) {
  const DeviceTraits device = device_traits(options.device, options.num_threads);
  return {.max_rows = device.padded_rows(options.max_batch_tokens),
          .max_sequences = options.max_sequences,
          .max_draft_tokens = options.max_draft_tokens,
          .type = device.activation_type};
}

EngineOptions resolved(EngineOptions options, const ModelConfig& config) {
  if (options.num_threads == 0) options.num_threads = default_num_threads();
  if (options.num_threads < 1 || options.num_threads > 1024) {
    fail("threads: {} wanted, 1 to 1024 possible", options.num_threads);
  }
  if (options.max_batch_tokens < 1)
    fail("tokens a step: {} wanted, at least 1 possible", options.max_batch_tokens);
  if (traits_of(options).released_only && options.precision != Precision::kReleased) {
    fail("{} computes in released precision only, not in {}; --device cpu has all",
         device_name(options.device), precision_name(options.precision));
  }
  const bool on_gpus = !options.device.is_cpu(), names_lmhead_tp = options.parallel.lmhead_tp != 0;
  if (options.expert_table != nullptr)
    options.parallel = with_table(options.parallel, *options.expert_table, config);
  options.parallel.maps_by_layer = options.expert_table != nullptr || options.balance.enabled;
  if (on_gpus) options.parallel = with_experts_of_gpus(options.parallel);
  options.parallel = resolved(options.parallel, config);
  if (on_gpus && !names_lmhead_tp && !gathers_vocabulary(config, options.parallel.lmhead_tp))
    options.parallel.lmhead_tp = 1;
  if (options.balance.enabled) validate(options.balance);
  settle_messages(options);
  check_ranks(options, config);
  if (options.max_sequences < 1) fail("sequences: {} wanted, at least 1 possible", options.max_sequences);
  if (options.max_draft_tokens < 0 || options.max_draft_tokens > kMaxDraftTokens) {
    fail("draft tokens: {} wanted, 0 to {} possible", options.max_draft_tokens, kMaxDraftTokens);
  }
  options.drafts |= options.max_draft_tokens > 0;
  options.overlap.most_decode_tokens = 1 + options.max_draft_tokens;
  if (options.max_logit_rows == 0) {
    options.max_logit_rows =
        std::min(options.max_sequences * (options.max_draft_tokens + 1), options.max_batch_tokens);
  }
  if (options.max_logit_rows > options.max_batch_tokens) {
    fail("logits of {} rows wanted, but a step has {} at most", options.max_logit_rows,
         options.max_batch_tokens);
  }
  const std::int64_t most = config.max_position_embeddings * options.max_sequences;
  if (options.cache_tokens == 0) options.cache_tokens = config.max_position_embeddings;
  if (options.cache_tokens < 0 || options.cache_tokens > most) {
    fail("context: {} positions wanted, the model has {} for each of {} sequences", options.cache_tokens,
         config.max_position_embeddings, options.max_sequences);
  }
  settle_draft_head(options, config);
  if (options.cached_window_pages < 0 || options.reserved_tails < 0) {
    fail("cached window pages: {} wanted, {} of them reserved; none is the least possible",
         options.cached_window_pages, options.reserved_tails);
  }
  options.prefix_cache |= options.disk.has_value();
  if (!options.prefix_cache) {
    options.cached_window_pages = options.reserved_tails = 0;
  } else if (options.cached_window_pages == 0) {
    options.cached_window_pages = 32 + 4 * options.max_sequences;
  }
  return options;
}

CacheGeometry cache_geometry(const ModelConfig& config, const EngineOptions& options) {
  CacheGeometry geometry = cache_geometry(config, options.precision, options.max_draft_tokens);
  geometry.shares_prefixes = options.prefix_cache;
  return geometry;
}

EngineLimits engine_limits(const ModelConfig& config, const EngineOptions& options) {
  const bool chooses = options.choose_on_device.value_or(traits_of(options).queues);
  // The first stage of a pipeline would need what the last one chooses; a sequence changes its group between
  // two steps.
  const bool queues = chooses && options.parallel.pp <= 1 && options.parallel.prefill_groups == 0;
  return {
      .vocab_size = config.vocab_size,
      .max_batch_tokens = options.max_batch_tokens,
      .max_logit_rows = options.max_logit_rows,
      .max_sequences = options.max_sequences,
      .max_draft_tokens = options.max_draft_tokens,
      .least_draft_room = options.max_draft_tokens > 0
                              ? options.draft_head->traits(config, draft_sizes(options)).block_positions
                              : 0,
      // The pool has more pages, so that every sequence may leave its last one part empty: not to be counted
      // on.
      .context_tokens = std::min(config.max_position_embeddings, options.cache_tokens),
      .chooses = chooses,
      .queues = queues,
      // How many drafts a step accepts decides at which position the next one begins.
      .runs_ahead = queues && !options.drafts};
}

namespace {

/// Of a device without weights of its own: what variants named `int8` copy, once all of them have run.
std::int64_t int8_copies(const ModelConfig& config, const StorageFormats& formats,
                         const EngineOptions& options) {
  if (formats.dense != WeightFormat::kFp8) return 0;
  const auto is_copied = [&](const TensorSpec& tensor) {
    if (tensor.storage != Storage::kDense || (config.is_draft_block(tensor.block) && !options.drafts))
      return false;
    const std::string_view operation = tensor.role == TensorRole::kSharedExpert ? ops::Experts::kName
                                       : tensor.name.ends_with(".wo_a")         ? ops::GroupedLinear::kName
                                                                                : ops::Linear::kName;
    return forces(options.forced_variants, operation, kInt8Variant);
  };
  std::int64_t bytes = 0;
  for (const TensorSpec& tensor : tensor_table(config)) {
    if (is_copied(tensor)) bytes += int8_copy_bytes(tensor.num_elements());
  }
  return bytes;
}

}  // namespace

std::int64_t buffered_rows(const EngineOptions& options) {
  return options.parallel.dual_batch_overlap ? rows_of_two_batches(options.max_batch_tokens)
                                             : options.max_batch_tokens;
}

MemoryPlan plan_memory(const ModelConfig& config, const StorageFormats& formats,
                       const EngineOptions& options) {
  if (!traits_of(options).shares_host_memory)
    return plan_memory(config, device_weight_bytes(config, formats), options);
  MemoryPlan plan = plan_memory(config, 0, options);
  plan.int8_copy_bytes = int8_copies(config, formats, options);
  return plan;
}

MemoryPlan plan_memory(const ModelConfig& config, std::int64_t weight_bytes, const EngineOptions& options) {
  const DeviceTraits device = traits_of(options);
  const CacheGeometry geometry = cache_geometry(config, options);
  MemoryPlan plan;
  // Every sequence may leave its last page part empty.
  plan.capacity.num_pages = pages_for(options.cache_tokens) + options.max_sequences - 1;
  plan.capacity.num_window_pages = std::min(
      plan.capacity.num_pages, max_window_pages(geometry, options.max_sequences, options.max_batch_tokens) +
                                   options.cached_window_pages);
  plan.cached_window_pages =
      plan.capacity.num_window_pages -
      std::min(plan.capacity.num_window_pages,
               max_window_pages(geometry, options.max_sequences, options.max_batch_tokens));
  plan.capacity.num_state_slots = options.max_sequences;
  plan.page_bytes = plan.capacity.num_pages * geometry.page_bytes();
  plan.window_bytes = plan.capacity.num_window_pages * geometry.window_page_bytes();
  plan.state_bytes = plan.capacity.num_state_slots * geometry.state_slot_bytes();
  plan.activation_bytes =
      forward_buffer_bytes(config, device.padded_rows(buffered_rows(options)), device.activation_type);
  const auto streams = [&](std::int64_t rows) {
    return Arena::bytes_for<std::byte>(rows * config.hc_dim() * size_of(device.activation_type));
  };
  plan.activation_bytes += streams(options.max_logit_rows);
  plan.activation_bytes += Arena::bytes_for<TokenId>(options.max_logit_rows);  // those that are chosen
  if (options.drafts)
    plan.activation_bytes += options.draft_head->traits(config, draft_sizes(options)).buffer_bytes;
  const std::int64_t max_positions =
      std::min(config.max_position_embeddings, plan.capacity.num_pages * kPageTokens);
  plan.max_table_pages = pages_for(max_positions);
  plan.scratch_bytes =
      scratch_bytes(device, step_shape(config, device.padded_rows(options.max_batch_tokens),
                                       options.max_logit_rows, options.max_sequences, max_positions));
  plan.why_not_scratch = why_not_scratch(device);
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
  const ModelConfig own = rank_config(config, parallel, layout.stage());
  MemoryPlan plan = plan_memory(own, weight_bytes, options);
  const DeviceTraits device = traits_of(options);
  // Of BF16 checkpoints, which have nothing to copy, too much.
  if (device.shares_host_memory) plan.int8_copy_bytes = int8_copies(own, StorageFormats(), options);
  if (parallel.shares_rows()) {
    plan.activation_bytes += Arena::bytes_for<std::byte>(device.padded_rows(options.max_batch_tokens) *
                                                         own.hc_dim() * size_of(device.activation_type));
  }
  plan.message_bytes =
      message_buffer_bytes(own, layout, device.padded_rows(buffered_rows(options)), device.activation_type);
  if (!device.shares_host_memory) {
    const RankShare share = rank_share(config, parallel, layout.stage());
    plan.scratch_bytes += split_experts_scratch_bytes(
        device.padded_rows(options.max_batch_tokens), config.num_experts_per_tok, config.hidden_size,
        share.num_experts(config.n_routed_experts), {share.moe_tp > 1, share.shared_tp > 1});
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
                         std::min(own.max_position_embeddings, plan.capacity.num_pages * kPageTokens));
  }
  plan.scratch_bytes = std::max(plan.scratch_bytes, scratch_bytes(device, arrived));
  return plan;
}

namespace {

/// Lines about experts outside the GPU's memory.
std::string experts_text(const MemoryPlan& plan) {
  const ExpertCounts& experts = plan.experts;
  if (experts.num_away() == 0) return "";
  const auto percent = [&](std::int64_t count) {
    return 100.0 * static_cast<double>(count) / static_cast<double>(experts.num_in_all());
  };
  const auto mb = [](std::int64_t bytes) { return 1e-6 * static_cast<double>(bytes); };
  std::string text = fmt::format(
      "on the host  {:10.1f} MB pinned: {} of {} routed experts ({:.1f}%), fetched over PCIe; {} slots of a "
      "layer keep what came last\n",
      mb(plan.host_expert_bytes), experts.num_on_host, experts.num_in_all(), percent(experts.num_on_host),
      experts.num_slots);
  if (experts.num_on_disk > 0) {
    text += fmt::format("on disk      {:10.1f} MB: {} routed experts ({:.1f}%), read when they are needed\n",
                        mb(plan.disk_expert_bytes), experts.num_on_disk, percent(experts.num_on_disk));
  }
  return text;
}

}  // namespace

std::string to_text(const MemoryPlan& plan) {
  const auto mb = [](std::int64_t bytes) { return static_cast<double>(bytes) / 1e6; };
  const std::string weights =
      plan.weight_bytes == 0 ? "" : fmt::format("weights      {:10.1f} MB\n", mb(plan.weight_bytes));
  const std::string scratch_note =
      plan.why_not_scratch.empty() ? "" : fmt::format("  (not known: {})", plan.why_not_scratch);
  const std::string overhead =
      plan.overhead_bytes == 0
          ? ""
          : fmt::format("CUDA         {:10.1f} MB  (context, kernels, captured graphs)\n",
                        mb(plan.overhead_bytes));
  const std::string messages =
      plan.message_bytes == 0 ? "" : fmt::format("messages     {:10.1f} MB\n", mb(plan.message_bytes));
  const std::string copies =
      plan.int8_copy_bytes == 0 ? "" : fmt::format("int8 copies  {:10.1f} MB\n", mb(plan.int8_copy_bytes));
  return weights + copies + experts_text(plan) +
         fmt::format(
             "cache        {:10.1f} MB  ({} pages of {} positions {:.1f}, {} window pages "
             "{:.1f}{}, {} state slots "
             "{:.1f})\n"
             "activations  {:10.1f} MB\n"
             "scratch      {:10.1f} MB{}\n"
             "logits       {:10.1f} MB\n"
             "{}{}"
             "in all       {:10.1f} MB, reserved at start{}\n",
             mb(plan.cache_bytes()), plan.capacity.num_pages, kPageTokens, mb(plan.page_bytes),
             plan.capacity.num_window_pages, mb(plan.window_bytes),
             plan.cached_window_pages > 0
                 ? fmt::format(" of which {} for cached prefixes", plan.cached_window_pages)
                 : "",
             plan.capacity.num_state_slots, mb(plan.state_bytes), mb(plan.activation_bytes),
             mb(plan.scratch_bytes), scratch_note, mb(plan.logit_bytes), messages, overhead,
             mb(plan.total_bytes()), plan.weight_bytes == 0 ? " and resident as it is used" : "");
}

}  // namespace baleen
