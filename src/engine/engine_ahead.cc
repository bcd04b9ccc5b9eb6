// Decoding a step ahead of the host: while it looks at a token, the step that was fed with it runs already.

#include <algorithm>

#include "base/check.h"
#include "engine/engine.h"
#include "ops/sample/sample.h"

namespace baleen {

std::optional<Failure> Engine::queue(SequenceId sequence, std::optional<TokenId> token,
                                     const SampleRow& draw) {
  BALEEN_CHECK(!options_.mtp && !options_.disk);
  BALEEN_CHECK_LT(ahead_.size(), kMaxAhead);
  BALEEN_CHECK_EQ(token.has_value(), ahead_.empty());
  const TokenId fed = token.value_or(0);
  const StepInput input{sequence, {&fed, 1}, WantedLogits::kLast, {&draw, 1}};
  const std::span inputs(&input, 1);
  if (auto wrong = check(inputs)) return wrong;
  if (auto full = take_pages(inputs)) return full;
  lay_out(inputs);
  const std::size_t place = num_ahead_++ % kMaxAhead;
  const auto chosen_at = [&](std::size_t i) { return ahead_chosen().subspan(i, 1); };
  const Activations<3> streams =
      token ? forward_.run({.tokens = tokens_, .slices = slices_})
            : forward_.run({.tokens = tokens_, .slices = slices_}, chosen_at((place + 1) % kMaxAhead));
  device_->execute<ops::Sample>(
      {.logits = last_logits(streams), .rows = input.draws, .ids = chosen_at(place)});
  device_->steps().set_mark(static_cast<int>(place));
  ahead_.push_back({sequence, sequences_.length(sequence), fed, place});
  sequences_.commit(sequence, input.tokens);
  return std::nullopt;
}

Result<TokenId> Engine::collect() {
  BALEEN_CHECK(!ahead_.empty());
  const QueuedStep step = ahead_.front();
  ahead_.pop_front();
  device_->steps().wait_for(static_cast<int>(step.place));
  const TokenId chosen = ahead_chosen()[step.place];
  if (chosen == kNoToken) {
    ahead_.clear();
    tokens_ = {step.token};
    slices_ = {sequences_.slice(step.sequence, 0, 1)};
    slices_.front().start = step.position;
    wanted_rows_ = {0};
    return not_numbers();
  }
  if (!ahead_.empty()) {
    ahead_.front().token = chosen;
    sequences_.name(step.sequence, ahead_.front().position, chosen);
  }
  return chosen;
}

}  // namespace baleen
