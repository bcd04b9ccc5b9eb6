#include "engine/engine.h"

#include <utility>

#include "engine/engine_limits.h"
#include "engine/fabricated_history.h"
#include "engine/finite_values.h"
#include "engine/page_traits.h"
#include "engine/step_inputs.h"

namespace baleen {

Engine::Engine(const std::filesystem::path& folder, const EngineOptions& options)
    : Engine(std::make_unique<ModelWeights>(folder), options) {}

Engine::Engine(std::shared_ptr<const ModelWeights> weights, const EngineOptions& options)
    : weights_(std::move(weights)),
      options_(resolved(options, config())),
      model_(whole_model(*weights_, options_), options_),
      disk_(open_disk()),
      runner_(model_, config(), options_) {
  take_disk();
  runner_.capture_steps();
  model_.check_reads();
}

std::unique_ptr<IdentifiedDisk> Engine::open_disk() const {
  if (!options_.disk) return nullptr;
  return std::make_unique<IdentifiedDisk>(*options_.disk, weights_->checkpoint(),
                                          page_traits(options_, model_.device().traits()),
                                          cache_geometry(config(), options_));
}

void Engine::take_disk() {
  if (!disk_) return;
  if (DiskTier* const tier = disk_->arrived()) runner_.sequences().attach(*tier);
}

std::optional<DiskTierStats> Engine::disk_stats() const {
  return disk_ ? std::optional(disk_->stats()) : std::nullopt;
}

std::optional<SequenceId> Engine::open(std::span<const TokenId> prompt) {
  take_disk();
  return runner_.open(prompt);
}

void Engine::foresee(SequenceId sequence, std::span<const TokenId> tokens) {
  runner_.foresee(sequence, tokens);
}

std::optional<SequenceId> Engine::open_prompt(std::span<const TokenId> tokens, std::int64_t prompt_tokens) {
  take_disk();
  return runner_.open(tokens, options_.decoder_begin(prompt_tokens));
}

Failure Engine::locate_bad_logits() { return not_numbers(config(), runner_.first_bad_block()); }

Result<StepOutput> Engine::step(std::span<const StepInput> inputs) {
  if (auto wrong = runner_.prepare(inputs)) return std::move(*wrong);
  const Result<ComputedStep> step = runner_.results(inputs, runner_.run(inputs, runner_.decoder_use(inputs)));
  if (!step) return Failure{step.error()};
  if (!step.value().is_finite) return locate_bad_logits();
  runner_.commit(inputs);
  return step.value().output;
}

std::optional<Failure> Engine::queue(std::span<const StepInput> inputs) {
  if (auto wrong = runner_.prepare(inputs)) return wrong;
  runner_.begin(inputs, most_drafts(inputs), runner_.decoder_use(inputs));
  return std::nullopt;
}

Result<StepOutput> Engine::collect() {
  const ComputedStep step = runner_.collect();
  if (!step.is_finite) return locate_bad_logits();
  return step.output;
}

Result<DraftOutput> Engine::draft(std::span<const DraftInput> inputs, std::int64_t depth) {
  if (auto wrong = runner_.check_drafts(inputs, depth)) return std::move(*wrong);
  runner_.foresee(inputs, depth);
  return runner_.draft(inputs, depth);
}

void Engine::keep_tail(SequenceId sequence, std::int64_t end) {
  runner_.sequences().keep_tail(sequence, end);
}
PrefixLookup Engine::lookup(SequenceId sequence) const { return runner_.sequences().lookup(sequence); }
std::int64_t Engine::length(SequenceId sequence) const { return runner_.sequences().length(sequence); }
bool Engine::reserve(SequenceId sequence, std::int64_t num_tokens) {
  return runner_.sequences().reserve(sequence, num_tokens);
}
void Engine::truncate(SequenceId sequence, std::int64_t length) {
  runner_.sequences().truncate(sequence, length);
}
void Engine::share(SequenceId sequence) { runner_.sequences().share(sequence); }
void Engine::close(SequenceId sequence, bool keep) { runner_.sequences().close(sequence, keep); }
CacheUse Engine::cache_use() const { return runner_.sequences().cache_use(); }
std::vector<RadixNodeSummary> Engine::tree(std::size_t most_nodes) const {
  return runner_.sequences().tree(most_nodes);
}

void Engine::fabricate_history(SequenceId sequence, std::int64_t num_positions) {
  baleen::fabricate_history(runner_.sequences(), runner_.cache(), config(), options_.max_batch_tokens,
                            sequence, num_positions);
}

}  // namespace baleen
