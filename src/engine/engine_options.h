/// What is asked of an engine, and what its zeros stand for.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/device_choice.h"
#include "disk_tier/disk_tier.h"
#include "engram/engram_place.h"
#include "forward/batch_overlap.h"
#include "model/config.h"
#include "model/decoder_half.h"
#include "model/parallel_plan.h"
#include "moe/placement/expert_balancer.h"
#include "moe/placement/expert_maps.h"
#include "numeric/dtype.h"
#include "ops/operation/forced_variants.h"

namespace baleen {

struct DraftHeadType;

/// Pages on disk beside those in memory.
struct DiskCacheOptions {
  std::filesystem::path folder;
  std::int64_t budget_bytes = 0;
  WindowPolicy window_policy = WindowPolicy::kAll;
  std::int64_t checkpoint_pages = DiskTierOptions().checkpoint_pages;
  std::int64_t max_queued_bytes = DiskTierOptions().max_queued_bytes;
  /// A checkpoint of which more must be read to know it from others is read beside the engine.
  std::int64_t max_bytes_hashed_at_start = std::int64_t{1} << 30;
  /// Called with what is ignored of files and what is read, from any thread; none: silence.
  std::function<void(const std::string&)> warn;
};

/// What becomes of chosen experts that lie outside the GPU's memory.
enum class HostExpertsMode : std::uint8_t {
  kFetch,    ///< they are copied there
  kCompute,  ///< the host's cores compute those that would come later than they are computed
  kAuto      ///< the one or the other, by what is measured at start
};

struct EngineOptions {
  DeviceChoice device;
  std::vector<DeviceChoice> rank_devices;          ///< one for each rank; empty: all have `device`, a CPU
  GpuMessages messages = GpuMessages::kAutomatic;  ///< between GPUs of ranks; resolved: one of the others
  Precision precision = Precision::kReleased;
  int num_threads = 0;                  ///< 0: every processor of this process
  std::int64_t max_batch_tokens = 512;  ///< rows of one step
  std::int64_t max_logit_rows = 0;      ///< rows of one step that may want logits; 0: max_sequences
  std::int64_t max_sequences = 1;
  /// Positions that the page pool holds, over all sequences; 0: the model's whole context once. Memory
  /// becomes resident only as positions are written.
  std::int64_t cache_tokens = 0;
  bool drafts = false;  ///< also run a draft head over every step
  /// Which one; null: the model's own. Outlives the engine.
  const DraftHeadType* draft_head = nullptr;
  /// Tokens a step may hold beyond those that are certain, and how deep drafts go; more than 0 implies
  /// `drafts`.
  std::int64_t max_draft_tokens = 0;
  /// Bounded replay: of a prompt (`StepEngine::open_prompt`) the decoder half of the model
  /// (model/decoder_half.h) is computed on so many last tokens alone, at least a window; 0: on all of them.
  /// An approximation: windows of these tokens end where they begin.
  std::int64_t bounded_replay_tokens = 0;
  /// Where the decoder half of a sequence begins that has such a prompt.
  [[nodiscard]] std::int64_t decoder_begin(std::int64_t prompt_tokens) const {
    return decoder_begin_of(prompt_tokens, bounded_replay_tokens);
  }
  /// Sequences start with what earlier ones left of their prompt, and leave what they computed.
  bool prefix_cache = false;
  /// Window pages for cached prefixes, beyond what sequences need; 0: a default that grows with
  /// max_sequences.
  std::int64_t cached_window_pages = 0;
  /// Of those, how many ends of recent prefixes are evicted last (RadixTreeOptions).
  std::int64_t reserved_tails = 0;
  std::optional<DiskCacheOptions> disk;  ///< implies `prefix_cache`
  /// The most that weights may take of each GPU's memory; none: what is free. Where they do not fit, the
  /// embedding and then routed experts lie in pinned memory of the host, of which those of all ranks may take
  /// `host_expert_bytes`, each an equal part; none: what they need. Experts that do not fit there either are
  /// read from disk.
  std::optional<std::int64_t> gpu_weight_bytes;
  std::optional<std::int64_t> host_expert_bytes;
  /// Whether such experts are fetched ahead of the router's choice, by a guess.
  bool fetch_ahead = true;
  /// With kCompute routed experts are added up in the stated order (ExpertSums::kStated) wherever they lie,
  /// so that no bit depends on it; with kAuto where some lie outside the GPU's memory.
  HostExpertsMode host_experts = HostExpertsMode::kFetch;
  /// Where tables of n-grams lie (V4.1).
  EngramWish engram = EngramWish::kAuto;
  /// For benchmarks: copies of chosen experts take as long as over a link of so many bytes a second.
  std::optional<double> imposed_link_rate;
  /// Variants that operations are forced to; the others choose for themselves.
  std::vector<ForcedVariant> forced_variants;
  /// Whether tokens are chosen where the logits are, when nothing on the host decides them
  /// (`EngineLimits::chooses`). Unset: where logits are far from the host, on a GPU.
  std::optional<bool> choose_on_device = std::nullopt;
  ParallelPlan parallel;  ///< zeros: one rank
  BatchOverlap overlap;   ///< which steps are cut in two, where `parallel` has two micro-batches
  /// Where experts lie in the beginning; null: as `parallel` places them.
  std::shared_ptr<const ExpertTable> expert_table = nullptr;
  BalanceOptions balance;  ///< how experts move over ranks while these serve
  /// Called with a sentence about each change that `balance` made or could not make, in the thread that
  /// steps; none: silence.
  std::function<void(const std::string&)> report_balance = nullptr;
  /// Called with a sentence about each sequence that a decode group refused, likewise.
  std::function<void(const std::string&)> report_refusal = nullptr;
  /// Called in a thread of the engine's when a rank in another process got a signal to end: this one, the
  /// first, is to end as if it had got it, and the others with it. None: it gets SIGTERM.
  std::function<void()> asked_to_end = nullptr;
  /// The longest that a rank waits for another one, which may be computing a whole step of a pipeline stage.
  std::chrono::milliseconds longest_wait = std::chrono::minutes(5);
};

/// Fills the zeros of `options`, and throws `Error` for values that cannot be met (more cache than the
/// model's context for each sequence, no rows, drafts of a model without a draft head).
[[nodiscard]] EngineOptions resolved(EngineOptions options, const ModelConfig& config);

}  // namespace baleen
