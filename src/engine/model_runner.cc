#include "engine/model_runner.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/progress.h"
#include "engine/finite_values.h"
#include "engine/step_inputs.h"
#include "model/decoder_half.h"

namespace baleen {
namespace {

/// The first layer of the half that bounded replay computes in part; nothing without it.
std::optional<std::int64_t> replayed_half(const ModelConfig& config, const EngineOptions& options) {
  if (options.bounded_replay_tokens == 0) return std::nullopt;
  return decoder_begin(config).value();
}

}  // namespace

ModelRunner::ModelRunner(DeviceModel& model, const ModelConfig& config, const EngineOptions& options)
    : model_(model),
      options_(options),
      limits_(engine_limits(config, options)),
      admission_(config, limits_, cache_.capacity(), /*may_be_empty=*/model.layout().plan().dp > 1,
                 sequences_, queued_),
      batch_(sequences_, replayed_half(config, options)) {
  // The plan is a promise: what was reserved is what was computed.
  BALEEN_CHECK_EQ(arenas_.device.peak_bytes(), arenas_.device.size_bytes());
}

std::unique_ptr<DraftSession> ModelRunner::open_drafts() {
  if (!options_.drafts) return nullptr;
  return std::make_unique<DraftSession>(options_, model_, pass_, cache_, sequences_, chooser_, arenas_);
}

void ModelRunner::capture_steps() {
  const DeviceTraits& traits = model_.device().traits();
  if (!traits.replays()) return;
  const std::int64_t most_rows = std::min({limits_.max_sequences * (1 + limits_.max_draft_tokens),
                                           limits_.max_batch_tokens, traits.max_replayed_rows});
  std::vector<std::int64_t> sizes;
  for (std::int64_t rows = 1; rows <= most_rows; ++rows) {
    if (sizes.empty() || traits.padded_rows(rows) > sizes.back()) sizes.push_back(traits.padded_rows(rows));
  }
  Progress progress("capturing steps", "sizes", static_cast<std::int64_t>(sizes.size()));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    pass_.capture(sizes[i]);
    if (drafts_) drafts_->capture(sizes[i]);
    progress.update(static_cast<std::int64_t>(i + 1));
  }
}

std::optional<SequenceId> ModelRunner::open(std::span<const TokenId> prompt, std::int64_t decoder_begin) {
  const std::optional<SequenceId> sequence = sequences_.open(prompt, decoder_begin);
  if (sequence) foreseen_.open(*sequence, prompt);
  return sequence;
}

ConstActivations<3> ModelRunner::run(std::span<const StepInput> inputs, DecoderUse use) {
  BALEEN_CHECK(queued_.empty());
  for (const StepInput& input : inputs) BALEEN_CHECK_EQ(input.num_drafts, 0);
  batch_.lay_out(inputs, use);
  promotion_.before_step(batch_.num_rows());
  foreseen_.before_step(inputs);
  const ConstActivations<3> streams = pass_.run(batch_.rows(), {}, batch_.decoder_rows());
  foreseen_.step_is_under_way();
  return streams;
}

Result<ComputedStep> ModelRunner::results(std::span<const StepInput> inputs, ConstActivations<3> streams) {
  ComputedStep step;
  step.is_finite = read_results(inputs, streams, step.output);
  if (drafts_) {
    if (batch_.reaches_last_layer()) step.output.draft_logits = drafts_->follow(inputs, batch_, streams, {});
    for (const StepInput& input : inputs)
      drafts_->clear_due_rows(input.sequence, sequences_.length(input.sequence) + std::ssize(input.tokens));
  }
  model_.check_reads();
  if (drafts_ && step.is_finite && !all_finite(step.output.draft_logits)) return drafts_->not_numbers();
  return step;
}

void ModelRunner::commit(std::span<const StepInput> inputs) {
  for (const StepInput& input : inputs) sequences_.commit(input.sequence, input.tokens);
}

Activations<2> ModelRunner::wanted_logits(ConstActivations<3> streams) {
  const Activations<2> out = logits_.first_rows(std::ssize(batch_.wanted_rows()));
  pass_.logits(streams, batch_.wanted_rows(), out);
  return out;
}

bool ModelRunner::read_results(std::span<const StepInput> inputs, ConstActivations<3> streams,
                               StepOutput& output) {
  const Activations<2> out = wanted_logits(streams);
  const std::vector<SampleRow> draws = draws_of(inputs);
  const std::int64_t num_wanted = out.extent(0), num_draws = std::ssize(draws);
  bool finite = true;
  if (num_draws > 0) {
    output.chosen = chooser_.choose(out.slice(0, num_draws), draws);
    finite = all_chosen(output.chosen);
  }
  if (num_draws < num_wanted) {
    output.logits = logits_.read(out.slice(num_draws, num_wanted));
    finite = finite && all_finite(output.logits);
  }
  return finite;
}

void ModelRunner::begin(std::span<const StepInput> inputs, std::int64_t num_links, DecoderUse use) {
  BALEEN_CHECK(limits_.queues);
  BALEEN_CHECK(queued_.takes_another(num_links));
  batch_.lay_out(inputs, use);
  promotion_.before_step(batch_.num_rows());
  const std::span<TokenId> left = queued_.tokens_for_next();
  std::vector<std::vector<std::int64_t>> drafts(inputs.size());
  if (drafts_) drafts = drafts_->queue(inputs, num_links, left);
  QueuedStep step = queued_.next(inputs, std::move(drafts), batch_);
  const ConstActivations<3> streams = pass_.run(batch_.rows(), left, batch_.decoder_rows());
  const Activations<2> logits = wanted_logits(streams);
  const std::vector<SampleRow> draws = draws_of(inputs);
  Device& device = model_.device();
  if (!draws.empty())
    device.execute<ops::Sample>({.logits = logits, .rows = draws, .ids = queued_.choices(step)});
  device.steps().set_mark(static_cast<int>(step.place));
  if (drafts_ && batch_.reaches_last_layer())
    static_cast<void>(drafts_->follow(inputs, batch_, streams, left));
  for (const StepInput& input : inputs) {
    std::vector<TokenId> fed(input.tokens.begin(), input.tokens.end());
    fed.resize(fed.size() + static_cast<std::size_t>(input.num_drafts), kNoToken);
    sequences_.extend(input.sequence, fed);
  }
  queued_.push(std::move(step));
}

ComputedStep ModelRunner::collect() {
  const QueuedStep step = queued_.pop();
  model_.device().steps().wait_for(static_cast<int>(step.place));
  model_.check_reads();
  ComputedStep done{.output = queued_.read(step, drafts_ ? drafts_->confidence() : std::span<const float>())};
  name_drafts(step, done.output.drafted);
  done.is_finite = is_finite(step, done.output.chosen);
  if (!done.is_finite) {
    batch_.lay_out(step);
    return done;
  }
  for (const QueuedPart& part : step.parts) {
    if (!sequences_.contains(part.sequence)) continue;
    // A step behind this one knows the later token: it has written the rows that waited for it.
    if (drafts_ && sequences_.length(part.sequence) == part.end)
      drafts_->clear_due_rows(part.sequence, part.end);
    sequences_.settle(part.sequence, part.end);
  }
  name_sources(queued_.oldest(), done.output.chosen);
  return done;
}

bool ModelRunner::is_finite(const QueuedStep& step, std::span<const TokenId> chosen) const {
  return std::ranges::all_of(step.parts, [&](const QueuedPart& part) {
    return !sequences_.contains(part.sequence) ||
           all_chosen(chosen.subspan(static_cast<std::size_t>(part.first_choice),
                                     static_cast<std::size_t>(part.num_choices)));
  });
}

void ModelRunner::name_drafts(const QueuedStep& step, std::span<const TokenId> drafted) {
  auto token = drafted.begin();
  for (const QueuedPart& part : step.parts) {
    std::int64_t position = part.end - std::ssize(part.drafts);
    for (; position < part.end; ++position, ++token) {
      // The step ran over token 0 where there is none.
      if (sequences_.contains(part.sequence)) sequences_.name(part.sequence, position, std::max(*token, 0));
    }
  }
}

void ModelRunner::name_sources(std::span<const QueuedPart> parts, std::span<const TokenId> chosen) {
  for (const QueuedPart& part : parts) {
    if (!part.source || !sequences_.contains(part.sequence)) continue;
    sequences_.name(part.sequence, part.begin, chosen[static_cast<std::size_t>(*part.source)]);
  }
}

}  // namespace baleen
