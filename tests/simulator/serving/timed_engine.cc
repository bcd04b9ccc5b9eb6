#include "tests/simulator/serving/timed_engine.h"

#include "base/check.h"

namespace baleen {

EngineLimits TimedEngine::limits() const {
  EngineLimits limits = setup_.limits;
  limits.chooses = true;
  limits.runs_ahead = false;  // a turn is a whole step, as in the simulation
  return limits;
}

TokenId TimedEngine::token_at(const SampleRow& draw, std::int64_t position) const {
  TokenId token = 0;
  fill_tokens(requests_[static_cast<std::size_t>(draw.top_k - 1)].stream, position, std::span(&token, 1));
  return token;
}

Result<StepOutput> TimedEngine::step(std::span<const StepInput> inputs) {
  std::vector<QueryPart> parts;
  chosen_.clear();
  for (const StepInput& input : inputs) {
    const std::int64_t start = length(input.sequence), count = std::ssize(input.tokens);
    const std::int64_t num_rows = input.wanted == WantedLogits::kNone   ? 0
                                  : input.wanted == WantedLogits::kLast ? 1
                                                                        : count;
    parts.push_back({start, count, num_rows, table_.decoder_begin(input.sequence)});
    BALEEN_CHECK_EQ(std::ssize(input.draws), num_rows);
    for (std::int64_t row = 0; row < num_rows; ++row) {
      const std::int64_t position = start + count - num_rows + row;
      chosen_.push_back(token_at(input.draws[static_cast<std::size_t>(row)], position + 1));
    }
    BALEEN_CHECK_LE(start + count, table_.reserved(input.sequence));
    table_.commit(input.sequence, input.tokens);
  }
  now_ += setup_.times->step_seconds(parts);
  on_step_end();
  return StepOutput{.chosen = chosen_};
}

Result<DraftOutput> TimedEngine::draft(std::span<const DraftInput> inputs, std::int64_t depth) {
  std::vector<QueryPart> chains;
  chosen_.clear();
  for (const DraftInput& input : inputs) {
    const std::int64_t position = length(input.sequence) + depth;
    chains.push_back({position, 1, 1});
    const ServingRequest& request = requests_[static_cast<std::size_t>(input.draw->top_k - 1)];
    const std::int64_t reply_tokens = length(input.sequence) + 1 - request.prompt_tokens;
    const bool right = acceptance_.accepted(request.number, reply_tokens, depth + 1) == depth + 1;
    chosen_.push_back(token_at(*input.draw, position + 1) ^ (right ? 0 : 1));
  }
  now_ += setup_.times->draft_seconds(chains, depth);
  return DraftOutput{.chosen = chosen_};
}

}  // namespace baleen
