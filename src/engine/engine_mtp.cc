// The MTP block, over the rows of a step and in chains of drafts.
//
// Its row of position p takes the stream of p and the token p + 1. So the row of a step's last position comes with
// the next step, or with a draft, which guesses the token; the step after it writes the row again.

#include <algorithm>

#include "base/check.h"
#include "engine/engine.h"
#include "ops/sample/sample.h"
#include "tensor/chosen_token.h"

namespace baleen {

Failure Engine::bad_mtp_block() {
  return failure(
      "the MTP block's logits are not numbers; its weights are damaged or leave the range of float32");
}

ConstActivations<2> Engine::run_mtp(std::span<const StepInput> inputs, ConstActivations<3> streams,
                                    std::span<const TokenId> chosen) {
  std::vector<TokenId> tokens;
  std::vector<SequenceSlice> slices;
  std::vector<RowPair> wanted, from_last, from_step, to_last;
  const auto pair = [](std::int64_t from, std::int64_t to) {
    return RowPair{static_cast<std::int32_t>(from), static_cast<std::int32_t>(to)};
  };
  std::int64_t row = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const SequenceSlice& slice = slices_[i];
    const std::int64_t first_row = row;
    // A sequence's own first position has no stream before it: it is at the beginning, or behind a found prefix.
    const bool has_stream_before = slice.start > sequences_.opened_at(inputs[i].sequence);
    if (has_stream_before) {
      from_last.push_back(pair(last_streams_.row(slice.state_slot, slice.start - 1), row++));
    }
    for (std::int64_t t = 0; t < slice.num_tokens; ++t) {
      if (t + 1 < slice.num_tokens) from_step.push_back(pair(slice.first_row + t, row++));
      if (t >= slice.num_tokens - last_streams_.rows()) {
        to_last.push_back(pair(slice.first_row + t, last_streams_.row(slice.state_slot, slice.start + t)));
      }
    }
    if (row == first_row) continue;
    const std::int64_t start = has_stream_before ? slice.start - 1 : slice.start;
    const auto end = tokens_.begin() + slice.first_row + slice.num_tokens;
    tokens.insert(tokens.end(), end - (row - first_row), end);
    slices.push_back(slice);
    slices.back().first_row = first_row;
    slices.back().num_tokens = row - first_row;
    slices.back().start = start;
    if (inputs[i].wanted != WantedLogits::kAll || !inputs[i].wants_draft_logits) continue;
    for (std::int64_t r = first_row; r < row; ++r) {
      wanted.push_back(pair(r, static_cast<std::int64_t>(wanted.size())));
    }
  }
  gather(last_streams_.streams(), from_last, mtp_inputs_);
  gather(flat(streams), from_step, mtp_inputs_);
  gather(flat(streams), to_last, last_streams_.streams());
  if (tokens.empty() && !is_awaited()) return {};
  const ConstActivations<3> own = run_mtp_rows({.tokens = tokens, .slices = slices}, chosen);
  const auto num_wanted = static_cast<std::int64_t>(wanted.size());
  if (num_wanted == 0) return {};
  gather(flat(all_rows(own)), wanted, wanted_streams_);
  const Activations<2> out = draft_logits_.slice(0, num_wanted);
  forward_.mtp_logits(stacked(kept_of(wanted_streams_.slice(0, num_wanted))), 0, out);
  return read_back(out, host_draft_logits_);
}

ConstActivations<3> Engine::run_mtp_rows(const RaggedBatch& batch, std::span<const TokenId> chosen) {
  return forward_.run_mtp(batch, chosen, stacked(mtp_inputs_), 0);
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
  for (const DraftInput& input : inputs) {
    const std::int64_t length = sequences_.length(input.sequence);
    BALEEN_CHECK_LT(sequences_.opened_at(input.sequence), length);
    if (auto bad = check_token(input.token, length + depth)) return bad;
    if (sequences_.reserved(input.sequence) < length + depth) return no_room(length + depth - 1);
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
    if (std::ranges::find(output.chosen, kNoToken) != output.chosen.end()) return bad_mtp_block();
  } else {
    output.logits = read_back(out, host_draft_logits_);
    if (!all_finite(output.logits)) return bad_mtp_block();
  }
  return output;
}

Activations<2> Engine::draft_logits(std::span<const DraftInput> inputs, std::int64_t depth,
                                    std::span<const TokenId> chosen) {
  std::vector<TokenId> tokens;
  std::vector<SequenceSlice> slices;
  std::vector<RowPair> stream_rows, own_rows;
  for (const DraftInput& input : inputs) {
    const std::int64_t length = sequences_.length(input.sequence);
    BALEEN_CHECK_LT(sequences_.opened_at(input.sequence), length);
    SequenceSlice slice = sequences_.slice(input.sequence, std::ssize(tokens), 1);
    slice.start = length - 1 + depth;
    const auto row = static_cast<std::int32_t>(slice.first_row);
    stream_rows.push_back(
        {depth == 0 ? last_streams_.row(slice.state_slot, length - 1) : slice.state_slot, row});
    own_rows.push_back({row, slice.state_slot});
    tokens.push_back(input.token);
    slices.push_back(slice);
  }
  gather(depth == 0 ? last_streams_.streams() : draft_streams_, stream_rows, mtp_inputs_);
  const ConstActivations<3> all = all_rows(run_mtp_rows({.tokens = tokens, .slices = slices}, chosen));
  gather(flat(all), own_rows, draft_streams_);
  const Activations<2> out = draft_logits_.slice(0, std::ssize(inputs));
  if (inputs.empty()) return out;
  const RowRange kept = rank_.layout.kept(std::ssize(inputs));
  forward_.mtp_logits(all.slice(kept.begin, kept.end), 0, out);
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

void Engine::clear_due_mtp_rows(SequenceId sequence, std::int64_t end) {
  if (end % kPageTokens != 0) return;
  const std::vector<float> zeros(static_cast<std::size_t>(config().head_dim));
  const SequenceSlice slice = sequences_.slice(sequence, 0, 0);
  const PageId page = slice.window_pages[static_cast<std::size_t>(end / kPageTokens - 1)];
  for (std::int64_t block = rank_config_.num_hidden_layers; block < rank_config_.num_blocks(); ++block) {
    cache_.write_row(cache_.window(block), page, int{kPageTokens} - 1, zeros);
  }
}

}  // namespace baleen
