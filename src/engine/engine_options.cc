#include "engine/engine_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/number.h"
#include "drafts/draft_head.h"
#include "drafts/heads/draft_heads.h"
#include "engine/engine_limits.h"
#include "model/decoder_half.h"
#include "model/expert_transport.h"
#include "model/rank_layout.h"
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

/// Throws where the host cannot compute experts.
void check_host_experts(const EngineOptions& options) {
  if (options.host_experts != HostExpertsMode::kCompute) return;
  if (options.device.is_cpu()) {
    fail(
        "‹host experts› compute is for a GPU: on {} all experts are computed by its cores anyway; leave it "
        "out",
        device_name(options.device));
  }
  if (!options.parallel.is_one_rank()) {
    fail(
        "‹host experts› compute, with {}: the host computes experts of one GPU so far; leave it out, or use "
        "one "
        "GPU",
        to_text(options.parallel));
  }
}

/// What kernels of ranks cannot do so far.
void check_gpu_ranks(const EngineOptions& options, const ModelConfig& config, const std::string& ranks) {
  const ParallelPlan& plan = options.parallel;
  if (std::ssize(options.rank_devices) != plan.num_devices) {
    fail("{}: {} ranks, but ‹GPUs› names {} GPUs; it wants one for each rank, as ‹GPUs› 0,1", ranks,
         plan.num_devices, options.rank_devices.size());
  }
  if (!gathers_vocabulary(config, plan.lmhead_tp)) {
    fail(
        "‹split of the vocabulary› {}: GPUs gather logits 16 bytes at a time, and {} of them are not cut "
        "into such parts; ‹split of the vocabulary› 1",
        plan.lmhead_tp, config.vocab_size);
  }
  if (plan.moe_tp > 1 && !expert_transport(plan, device_traits(options)).adds_sums) {
    fail(
        "‹split of experts› {}: GPUs split an expert's inner width where all ranks of a stage have the same "
        "tokens (‹tensor parallelism› {} alone) and experts lie linearly; leave it out, or ‹expert "
        "parallelism› {}",
        plan.moe_tp, plan.stage_ranks(), plan.stage_ranks());
  }
}

/// How messages go and how rows get to experts name each other: who says one thing says both.
void settle_messages(EngineOptions& options) {
  ParallelPlan& plan = options.parallel;
  const bool on_gpus = !options.device.is_cpu();
  if (options.messages != GpuMessages::kAutomatic && (!on_gpus || plan.is_one_rank())) {
    fail("‹messages› is for GPUs of several ranks; {}: leave it out",
         on_gpus ? "there is one" : "these ranks are on processors");
  }
  if (!on_gpus || plan.is_one_rank()) return;
  const bool names_nccl = plan.expert_transport == ExpertTransport::kNccl;
  const bool names_peers = plan.expert_transport == ExpertTransport::kPeerMemory ||
                           plan.expert_transport == ExpertTransport::kFused;
  if (options.messages == GpuMessages::kAutomatic)
    options.messages = names_nccl ? GpuMessages::kNccl : GpuMessages::kPeerMemory;
  if (options.messages == GpuMessages::kHostMemory && (plan.stage_ranks() > 1 || names_nccl || names_peers)) {
    fail(
        "‹messages› host-memory: is for pipelines with one rank a stage, whose only messages are those "
        "between "
        "stages; {} has others; ‹pipeline parallelism› {} alone would do",
        to_text(plan), plan.num_devices);
  }
  const bool by_nccl = options.messages == GpuMessages::kNccl;
  if (by_nccl ? names_peers : names_nccl) {
    fail("‹messages› {} and ‹expert transport› {}: all messages of a service go one way; leave out one",
         by_nccl ? "nccl" : "peer-memory", expert_transport(plan, device_traits(options)).name);
  }
  const bool automatic = plan.expert_transport == ExpertTransport::kAutomatic;
  if (by_nccl && automatic && expert_transport(plan, device_traits(options)).way)
    plan.expert_transport = ExpertTransport::kNccl;
}

/// Throws where ranks cannot do what the options want.
void check_ranks(const EngineOptions& options, const ModelConfig& config) {
  const ParallelPlan& plan = options.parallel;
  if (const auto refused = transport_violation(plan, device_traits(options))) fail("{}", *refused);
  if (plan.is_one_rank()) return;
  check_runnable(plan, config);
  const std::string ranks = to_text(plan);
  if (!options.device.is_cpu()) check_gpu_ranks(options, config, ranks);
  if (options.disk)
    fail("{}: pages of several ranks are not kept on disk so far; leave out ‹disk cache›", ranks);
  if (plan.o_proj_tp > plan.tp) {
    fail(
        "‹split of output projections› {}: over more ranks than ‹tensor parallelism› {} every data-parallel "
        "group would need as many tokens in each step; {} at most",
        plan.o_proj_tp, plan.tp, plan.tp);
  }
  if (!plan.dual_batch_overlap) return;
  if (const auto refused = overlap_violation(plan)) fail("{}", *refused);
}

/// Throws where prompts cannot be computed in part.
void check_bounded_replay(const EngineOptions& options, const ModelConfig& config) {
  const std::int64_t tokens = options.bounded_replay_tokens;
  if (tokens == 0) return;
  if (const auto refused = bounded_replay_violation(config, tokens)) fail("{}", *refused);
  if (options.disk) {
    fail(
        "‹bounded replay›, with ‹disk cache›: pages of prompts whose decoder half was not computed are not "
        "kept on disk; leave out one");
  }
}

/// After the other options.
void settle_draft_head(EngineOptions& options, const ModelConfig& config) {
  if (!options.drafts) return;
  if (options.draft_head == nullptr) options.draft_head = draft_head_of(config);
  if (options.draft_head == nullptr) fail("this model has no draft head to run");
  const DraftTraits traits = options.draft_head->traits(config, draft_sizes(options));
  if (options.max_draft_tokens > traits.most_tokens) {
    fail("draft tokens: {} wanted, the {} drafts {} at most", options.max_draft_tokens,
         options.draft_head->title, traits.most_tokens);
  }
  if (options.max_draft_tokens > 0 && options.max_batch_tokens < traits.block_positions) {
    fail("tokens a step: {} wanted, the {} drafts with at least {}", options.max_batch_tokens,
         options.draft_head->title, traits.block_positions);
  }
}

}  // namespace

EngineOptions resolved(EngineOptions options, const ModelConfig& config) {
  if (options.num_threads == 0) options.num_threads = default_num_threads();
  if (options.num_threads < 1 || options.num_threads > 1024) {
    fail("threads: {} wanted, 1 to 1024 possible", options.num_threads);
  }
  if (options.max_batch_tokens < 1)
    fail("tokens a step: {} wanted, at least 1 possible", options.max_batch_tokens);
  if (device_traits(options).released_only && options.precision != Precision::kReleased) {
    fail("{} computes in released precision only, not in {}; ‹device› cpu has all",
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
  check_host_experts(options);
  check_bounded_replay(options, config);
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
    const std::string own = grouped(config.max_position_embeddings);
    fail("‹context› {}: expected at most {}, {}; 0 takes {}", grouped(options.cache_tokens), grouped(most),
         options.max_sequences == 1
             ? "the positions that the model has"
             : fmt::format("the model's {} for each of {} sequences at a time", own, options.max_sequences),
         own);
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

}  // namespace baleen
