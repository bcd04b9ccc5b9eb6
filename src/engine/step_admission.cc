#include "engine/step_admission.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "engine/step_inputs.h"

namespace baleen {

StepAdmission::StepAdmission(const ModelConfig& config, const EngineLimits& limits,
                             const CacheCapacity& cache, bool may_be_empty, SequenceTable& sequences,
                             const QueuedSteps& queued)
    : config_(config),
      limits_(limits),
      cache_(cache),
      may_be_empty_(may_be_empty),
      sequences_(sequences),
      queued_(queued) {}

std::optional<Failure> StepAdmission::admit(std::span<const StepInput> inputs) {
  if (auto wrong = check(inputs)) return wrong;
  return take_pages(inputs);
}

std::optional<Failure> StepAdmission::check_token(TokenId token, std::int64_t position) const {
  if (token >= 0 && token < config_.vocab_size) return std::nullopt;
  return failure("token id {} at position {}: the vocabulary has ids 0 to {}", token, position,
                 config_.vocab_size - 1);
}

std::optional<Failure> StepAdmission::check(std::span<const StepInput> inputs) const {
  std::int64_t num_rows = 0, num_wanted = 0;
  for (const StepInput& input : inputs) {
    BALEEN_CHECK(sequences_.contains(input.sequence));
    BALEEN_CHECK_EQ(std::ranges::count(inputs, input.sequence, &StepInput::sequence), 1);
    BALEEN_CHECK(input.num_drafts >= 0 && input.num_drafts <= limits_.max_draft_tokens);
    const std::int64_t count = num_rows_of(input);
    const std::int64_t length = sequences_.length(input.sequence);
    if (input.tokens.empty()) return failure("a step without tokens for a sequence of {} positions", length);
    if (length + count > config_.max_position_embeddings) {
      return failure("{} positions and {} more tokens: the model's context is {}; shorten the prompt", length,
                     count, config_.max_position_embeddings);
    }
    for (std::int64_t i = 0; i < std::ssize(input.tokens); ++i) {
      const TokenId token = input.tokens[static_cast<std::size_t>(i)];
      if (token == kNoToken && count == 1 && queued_.choice_of(input.sequence)) continue;
      if (auto bad = check_token(token, length + i)) return bad;
    }
    const std::int64_t decoder_begin = sequences_.decoder_begin(input.sequence),
                       wanted = num_wanted_of(input);
    if (wanted > 0 && length + count - wanted < decoder_begin) {
      return failure(
          "logits of position {} are wanted, which went through the encoder half alone: bounded replay of "
          "this "
          "prompt begins at {}; open the sequence without it",
          length + count - wanted, decoder_begin);
    }
    num_rows += count;
    num_wanted += wanted;
  }
  if (is_too_few(num_rows) || num_rows > limits_.max_batch_tokens) {
    return failure("a step of {} tokens: this engine takes 1 to {}", num_rows, limits_.max_batch_tokens);
  }
  if (num_wanted > limits_.max_logit_rows) {
    return failure("logits of {} rows in one step: this engine has room for {}", num_wanted,
                   limits_.max_logit_rows);
  }
  return std::nullopt;
}

Failure StepAdmission::no_room(std::int64_t position) const {
  return failure(
      "no room in the cache for position {}: it holds {} positions in all; ask for a larger context",
      position, cache_.num_pages * kPageTokens);
}

std::optional<Failure> StepAdmission::take_pages(std::span<const StepInput> inputs) {
  std::vector<std::int64_t> reserved_before;
  for (const StepInput& input : inputs) {
    const std::int64_t count = num_rows_of(input);
    reserved_before.push_back(sequences_.reserved(input.sequence));
    if (sequences_.reserve(input.sequence, count)) continue;
    for (std::size_t i = 0; i < reserved_before.size(); ++i) {
      sequences_.give_back(inputs[i].sequence, reserved_before[i]);
    }
    return no_room(sequences_.length(input.sequence) + count - 1);
  }
  return std::nullopt;
}

std::optional<Failure> StepAdmission::check_drafts(std::span<const DraftInput> inputs,
                                                   std::int64_t depth) const {
  const auto num_rows = static_cast<std::int64_t>(inputs.size());
  const std::int64_t most_rows = std::min(limits_.max_logit_rows, limits_.max_batch_tokens);
  BALEEN_CHECK(queued_.empty());
  BALEEN_CHECK(depth >= 0 && depth < limits_.max_draft_tokens);
  if (is_too_few(num_rows) || num_rows > most_rows)
    return failure("drafts for {} sequences: this engine takes 1 to {}", num_rows, most_rows);
  const std::int64_t room = std::max(depth, limits_.least_draft_room);
  for (const DraftInput& input : inputs) {
    const std::int64_t length = sequences_.length(input.sequence);
    BALEEN_CHECK_LT(sequences_.opened_at(input.sequence), length);
    if (auto bad = check_token(input.token, length + depth)) return bad;
    if (sequences_.reserved(input.sequence) < length + room) return no_room(length + room - 1);
  }
  return std::nullopt;
}

}  // namespace baleen
