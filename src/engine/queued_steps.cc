#include "engine/queued_steps.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "device/step_replay.h"
#include "tensor/chosen_token.h"

namespace baleen {

static_assert(QueuedSteps::kMaxSteps == StepReplay::kNumMarks);

QueuedSteps::QueuedSteps(std::int64_t max_choices, Memory& memory)
    : max_choices_(static_cast<std::size_t>(max_choices)),
      choices_(std::int64_t{kMaxSteps} * max_choices * std::int64_t{sizeof(TokenId)}, memory) {}

std::span<TokenId> QueuedSteps::at(std::size_t step) const {
  return std::span(reinterpret_cast<TokenId*>(choices_.data()), kMaxSteps * max_choices_)
      .subspan(step % kMaxSteps * max_choices_, max_choices_);
}

bool QueuedSteps::takes_another(std::int64_t num_drafts) const {
  if (under_way_.empty()) return true;
  const bool drafts_under_way = std::ranges::any_of(
      under_way_.back().parts, [](const QueuedPart& part) { return !part.drafts.empty(); });
  return under_way_.size() < kMaxSteps && num_drafts == 0 && !drafts_under_way;
}

std::optional<std::int64_t> QueuedSteps::choice_of(SequenceId sequence) const {
  if (under_way_.empty()) return std::nullopt;
  const auto part = std::ranges::find(under_way_.back().parts, sequence, &QueuedPart::sequence);
  if (part == under_way_.back().parts.end() || part->num_choices == 0) return std::nullopt;
  return part->first_choice + part->num_choices - 1;
}

QueuedStep QueuedSteps::next(std::span<const StepInput> inputs, std::vector<std::vector<std::int64_t>> drafts,
                             StepBatch& batch) const {
  QueuedStep step{.place = num_queued_ % kMaxSteps, .decoder_use = batch.decoder_use()};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const StepInput& input = inputs[i];
    const SequenceSlice& slice = batch.slices()[i];
    BALEEN_CHECK(input.wanted == WantedLogits::kNone || !input.draws.empty());
    BALEEN_CHECK(input.num_drafts == 0 || input.wanted == WantedLogits::kLast);
    QueuedPart part{.sequence = input.sequence,
                    .begin = slice.start,
                    .end = slice.start + slice.num_tokens,
                    .first_choice = step.num_choices,
                    .num_choices = std::ssize(input.draws),
                    .source = std::nullopt,
                    .drafts = std::move(drafts[i])};
    std::int64_t row = slice.first_row + std::ssize(input.tokens);
    for (const std::int64_t place : part.drafts) batch.set_token(row++, chosen_token(place));
    if (input.tokens.front() == kNoToken) {
      part.source = choice_of(input.sequence);
      batch.set_token(slice.first_row, chosen_token(*part.source));
    }
    step.num_choices += part.num_choices;
    step.parts.push_back(std::move(part));
  }
  return step;
}

void QueuedSteps::push(QueuedStep step) {
  under_way_.push_back(std::move(step));
  ++num_queued_;
}

QueuedStep QueuedSteps::pop() {
  BALEEN_CHECK(!under_way_.empty());
  QueuedStep step = std::move(under_way_.front());
  under_way_.pop_front();
  return step;
}

StepOutput QueuedSteps::read(const QueuedStep& step, std::span<const float> confidence) {
  const std::span<const TokenId> chosen = choices(step), left_for_step = at(step.place + 1);
  chosen_.assign(chosen.begin(), chosen.end());
  drafted_.clear();
  confidence_.clear();
  for (const QueuedPart& part : step.parts) {
    for (const std::int64_t place : part.drafts) {
      drafted_.push_back(left_for_step[static_cast<std::size_t>(place)]);
      if (!confidence.empty()) confidence_.push_back(confidence[static_cast<std::size_t>(place)]);
    }
  }
  return {.chosen = chosen_, .drafted = drafted_, .confidence = confidence_};
}

}  // namespace baleen
