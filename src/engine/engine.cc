// An engine's parts, their memory, and its sequences.

#include "engine/engine.h"

#include <unistd.h>

#include <algorithm>

#include "base/check.h"
#include "hardware/instruction_sets.h"
#include "model/identity.h"

namespace baleen {

namespace {

/// Changes when pages of the same tokens get other bytes.
constexpr int kPageLayoutVersion = 1;

}  // namespace

bool all_finite(std::span<const float> values) {
  // x - x is 0 for every finite x and NaN otherwise; a sum of such differences vectorises, a branch does not.
  float sum = 0.0F;
  for (const float value : values) sum += value - value;
  return sum == 0.0F;
}

Engine::Engine(const std::filesystem::path& folder, const EngineOptions& options)
    : weights_(folder),
      options_(resolved(options, weights_.config())),
      plan_(plan_memory(config(), options_)),
      cache_(cache_geometry(config(), options_), plan_.capacity),
      disk_(open_disk_tier()),
      sequences_(cache_, options_.reserved_tails, disk_.get()),
      device_(options_.num_threads, plan_.scratch_bytes, options_.kernels),
      arena_(plan_.activation_bytes + plan_.logit_bytes),
      forward_(weights_, device_, cache_, options_.precision, options_.max_batch_tokens, arena_) {
  // Pages become resident one by one; all else is used by the first large step.
  const double physical =
      static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  if (static_cast<double>(plan_.total_bytes() - plan_.page_bytes) > physical) {
    fail("a step would take {:.1f} GB beside the weights, this machine has {:.1f} GB; try a smaller --chunk",
         1e-9 * static_cast<double>(plan_.total_bytes() - plan_.page_bytes), 1e-9 * physical);
  }
  allocate_activations();
  forward_.observe_blocks(
      [](void* self, std::int64_t block, ConstActivations<3> seen) {
        auto& engine = *static_cast<Engine*>(self);
        if (engine.bad_block_) return;
        for (const std::int64_t row : engine.wanted_rows_) {
          if (row < seen.extent(0) && !all_finite(row_of(seen, row))) engine.bad_block_ = block;
        }
      },
      this);
}

std::unique_ptr<DiskTier> Engine::open_disk_tier() const {
  if (!options_.disk) return nullptr;
  const DiskCacheOptions& disk = *options_.disk;
  // All that decides what bytes a page has for given tokens.
  const std::string kernels =
      options_.kernels == Kernels::kReference ? "reference" : instruction_set_in_use();
  const std::string fingerprint =
      fmt::format("layout {} {} {} {} {}", kPageLayoutVersion, precision_name(options_.precision), kernels,
                  checkpoint_identity(weights_.checkpoint()), options_.mtp ? "mtp" : "main");
  return std::make_unique<DiskTier>(
      DiskTierOptions{.folder = disk.folder,
                      .budget_bytes = disk.budget_bytes,
                      .window_policy = disk.window_policy,
                      .checkpoint_pages = disk.checkpoint_pages,
                      .fingerprint = fingerprint,
                      .page_bytes = cache_.geometry().page_bytes(),
                      .window_page_bytes = cache_.geometry().window_page_bytes(),
                      .max_queued_bytes = disk.max_queued_bytes},
      disk.warn ? disk.warn : [](const std::string&) {});
}

std::optional<DiskTierStats> Engine::disk_stats() const {
  return disk_ ? std::optional(disk_->stats()) : std::nullopt;
}

void Engine::allocate_activations() {
  const ModelConfig& c = config();
  const auto streams = [&](std::int64_t rows) {
    return Activations<3>(arena_.allocate<float>(rows * c.hc_dim()), {rows, c.hc_mult, c.hidden_size});
  };
  const auto logits = [&] {
    return Activations<2>(arena_.allocate<float>(options_.max_logit_rows * c.vocab_size),
                          {options_.max_logit_rows, c.vocab_size});
  };
  wanted_streams_ = streams(options_.max_logit_rows);
  logits_ = logits();
  if (options_.mtp) {
    const std::int64_t rows_kept = options_.max_draft_tokens + 1;
    mtp_inputs_ = streams(options_.max_batch_tokens);
    last_streams_ = KeptStreams(streams(options_.max_sequences * rows_kept), rows_kept);
    mtp_logits_ = logits();
  }
  if (options_.max_draft_tokens > 0) draft_streams_ = streams(options_.max_sequences);
  // The plan is a promise: what was reserved is what was computed.
  BALEEN_CHECK_EQ(arena_.peak_bytes(), plan_.activation_bytes + plan_.logit_bytes);
}

std::int64_t Engine::context_tokens() const {
  // The pool has more pages, so that every sequence may leave its last one part empty: not to be counted on.
  return std::min(config().max_position_embeddings, options_.cache_tokens);
}

EngineLimits Engine::limits() const {
  return {.vocab_size = config().vocab_size,
          .max_batch_tokens = options_.max_batch_tokens,
          .max_logit_rows = options_.max_logit_rows,
          .max_sequences = options_.max_sequences,
          .max_draft_tokens = options_.max_draft_tokens,
          .context_tokens = context_tokens()};
}

std::optional<SequenceId> Engine::open(std::span<const TokenId> prompt) { return sequences_.open(prompt); }
std::int64_t Engine::length(SequenceId sequence) const { return sequences_.length(sequence); }
bool Engine::reserve(SequenceId sequence, std::int64_t num_tokens) {
  return sequences_.reserve(sequence, num_tokens);
}
void Engine::truncate(SequenceId sequence, std::int64_t length) { sequences_.truncate(sequence, length); }

void Engine::share(SequenceId sequence) { sequences_.share(sequence); }
void Engine::close(SequenceId sequence, bool keep) { sequences_.close(sequence, keep); }

CacheUse Engine::cache_use() const { return sequences_.cache_use(); }
std::vector<RadixNodeSummary> Engine::tree(std::size_t most_nodes) const {
  return sequences_.tree(most_nodes);
}

}  // namespace baleen
