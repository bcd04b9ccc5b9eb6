// The draft head, over the rows of a step and between steps.

#include <algorithm>

#include "base/check.h"
#include "engine/engine.h"
#include "ops/sample/sample.h"
#include "tensor/chosen_token.h"

namespace baleen {

Failure Engine::bad_drafts() const {
  return failure("the {}'s logits are not numbers; its weights are damaged or leave the range of float32",
                 options_.draft_head->title);
}

ConstActivations<2> Engine::follow(std::span<const StepInput> inputs, ConstActivations<3> streams,
                                   std::span<const TokenId> chosen) {
  std::vector<FollowedPart> parts;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    // Nothing is before a sequence's own first position: it is at the beginning, or behind a found prefix.
    parts.push_back({.continues = slices_[i].start > sequences_.opened_at(inputs[i].sequence),
                     .wants_logits = inputs[i].wanted == WantedLogits::kAll && inputs[i].wants_draft_logits});
  }
  const std::int64_t num_rows = draft_head_->follow(
      {.batch = {.tokens = tokens_, .slices = slices_}, .parts = parts, .streams = streams, .chosen = chosen},
      draft_logits_);
  if (num_rows == 0) return {};
  return read_back(draft_logits_.slice(0, num_rows), host_draft_logits_);
}

std::optional<Failure> Engine::check_drafts(std::span<const DraftInput> inputs, std::int64_t depth) const {
  const auto num_rows = static_cast<std::int64_t>(inputs.size());
  BALEEN_CHECK(under_way_.empty());
  BALEEN_CHECK(depth >= 0 && depth < options_.max_draft_tokens);
  if ((num_rows == 0 && !is_awaited()) ||
      num_rows > std::min(options_.max_logit_rows, options_.max_batch_tokens)) {
    return failure("drafts for {} sequences: this engine takes 1 to {}", num_rows,
                   std::min(options_.max_logit_rows, options_.max_batch_tokens));
  }
  const std::int64_t room = std::max(depth, limits().least_draft_room);
  for (const DraftInput& input : inputs) {
    const std::int64_t length = sequences_.length(input.sequence);
    BALEEN_CHECK_LT(sequences_.opened_at(input.sequence), length);
    if (auto bad = check_token(input.token, length + depth)) return bad;
    if (sequences_.reserved(input.sequence) < length + room) return no_room(length + room - 1);
  }
  return std::nullopt;
}

Result<DraftOutput> Engine::draft(std::span<const DraftInput> inputs, std::int64_t depth) {
  if (auto wrong = check_drafts(inputs, depth)) return std::move(*wrong);
  if (!rank_.layout.stage().last) return DraftOutput();
  const std::int64_t num_rows = std::ssize(inputs);
  const Activations<2> out = draft_logits(inputs, depth, {});
  DraftOutput output;
  if (num_rows == 0) return output;
  std::vector<SampleRow> draws;
  for (const DraftInput& input : inputs) {
    if (input.draw) draws.push_back(*input.draw);
  }
  if (std::ssize(draws) == num_rows) {
    output.chosen = choose(out, draws);
    if (std::ranges::find(output.chosen, kNoToken) != output.chosen.end()) return bad_drafts();
  } else {
    output.logits = read_back(out, host_draft_logits_);
    if (!all_finite(output.logits)) return bad_drafts();
  }
  return output;
}

Activations<2> Engine::draft_logits(std::span<const DraftInput> inputs, std::int64_t depth,
                                    std::span<const TokenId> chosen) {
  std::vector<DraftRow> rows;
  for (const DraftInput& input : inputs) {
    BALEEN_CHECK_LT(sequences_.opened_at(input.sequence), sequences_.length(input.sequence));
    rows.push_back({.sequence = sequences_.slice(input.sequence, 0, 0), .token = input.token});
  }
  const Activations<2> out = draft_logits_.slice(0, std::ssize(inputs));
  draft_head_->draft(rows, depth, chosen, out);
  return out;
}

std::vector<std::vector<std::int64_t>> Engine::queue_drafts(std::span<const StepInput> inputs,
                                                            std::int64_t num_links,
                                                            std::span<TokenId> drafted) {
  std::vector<std::vector<std::int64_t>> places(inputs.size());
  std::int64_t num_drafted = 0;
  std::vector<DraftInput> links;
  std::vector<SampleRow> draws;
  for (std::int64_t depth = 0; depth < num_links; ++depth) {
    links.clear();
    draws.clear();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const StepInput& input = inputs[i];
      if (input.num_drafts <= depth) continue;
      const TokenId newest = depth == 0 ? input.tokens.back() : chosen_token(places[i].back());
      places[i].push_back(num_drafted + std::ssize(links));
      links.push_back({.sequence = input.sequence, .token = newest});
      draws.push_back(input.draws[static_cast<std::size_t>(depth)]);
    }
    const Activations<2> logits = draft_logits(links, depth, drafted);
    if (links.empty()) continue;
    const auto ids = drafted.subspan(static_cast<std::size_t>(num_drafted), links.size());
    device_->execute<ops::Sample>({.logits = logits, .rows = draws, .ids = ids});
    num_drafted += std::ssize(links);
  }
  return places;
}

void Engine::clear_due_rows(SequenceId sequence, std::int64_t end) {
  draft_head_->clear_due_rows(sequences_.slice(sequence, 0, 0), end);
}

}  // namespace baleen
