// A step: check, take pages, lay out the batch, run, pick the rows that are wanted.

#include <algorithm>

#include "base/check.h"
#include "engine/engine.h"

namespace baleen {

namespace {

/// Its tokens and the drafts behind them.
std::int64_t num_rows_of(const StepInput& input) { return std::ssize(input.tokens) + input.num_drafts; }

std::int64_t num_wanted_of(const StepInput& input) {
  switch (input.wanted) {
    case WantedLogits::kNone:
      return 0;
    case WantedLogits::kLast:
      return 1 + input.num_drafts;
    case WantedLogits::kAll:
      return std::ssize(input.tokens);
  }
  return 0;
}

}  // namespace

std::optional<Failure> Engine::check_token(TokenId token, std::int64_t position) const {
  if (token >= 0 && token < config().vocab_size) return std::nullopt;
  return failure("token id {} at position {}: the vocabulary has ids 0 to {}", token, position,
                 config().vocab_size - 1);
}

std::optional<Failure> Engine::check(std::span<const StepInput> inputs) const {
  std::int64_t num_rows = 0, num_wanted = 0;
  for (const StepInput& input : inputs) {
    BALEEN_CHECK(sequences_.contains(input.sequence));
    BALEEN_CHECK_EQ(std::ranges::count(inputs, input.sequence, &StepInput::sequence), 1);
    BALEEN_CHECK(input.num_drafts >= 0 && input.num_drafts <= options_.max_draft_tokens);
    const std::int64_t count = num_rows_of(input);
    const std::int64_t length = sequences_.length(input.sequence);
    if (input.tokens.empty()) return failure("a step without tokens for a sequence of {} positions", length);
    if (length + count > config().max_position_embeddings) {
      return failure("{} positions and {} more tokens: the model's context is {}; shorten the prompt", length,
                     count, config().max_position_embeddings);
    }
    for (std::int64_t i = 0; i < std::ssize(input.tokens); ++i) {
      const TokenId token = input.tokens[static_cast<std::size_t>(i)];
      if (token == kNoToken && count == 1 && choice_of(input.sequence)) continue;
      if (auto bad = check_token(token, length + i)) return bad;
    }
    num_rows += count;
    num_wanted += num_wanted_of(input);
  }
  if ((num_rows == 0 && !is_awaited()) || num_rows > options_.max_batch_tokens) {
    return failure("a step of {} tokens: this engine takes 1 to {}", num_rows, options_.max_batch_tokens);
  }
  if (num_wanted > options_.max_logit_rows) {
    return failure("logits of {} rows in one step: this engine has room for {}", num_wanted,
                   options_.max_logit_rows);
  }
  return std::nullopt;
}

Failure Engine::no_room(std::int64_t position) const {
  return failure(
      "no room in the cache for position {}: it holds {} positions in all; ask for a larger context",
      position, plan_.capacity.num_pages * kPageTokens);
}

std::optional<Failure> Engine::take_pages(std::span<const StepInput> inputs) {
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

void Engine::lay_out(std::span<const StepInput> inputs) {
  tokens_.clear();
  slices_.clear();
  wanted_rows_.clear();
  std::vector<std::int64_t> for_the_host;
  for (const StepInput& input : inputs) {
    const auto first_row = static_cast<std::int64_t>(tokens_.size());
    const std::int64_t count = num_rows_of(input);
    tokens_.insert(tokens_.end(), input.tokens.begin(), input.tokens.end());
    tokens_.resize(static_cast<std::size_t>(first_row + count), kNoToken);
    slices_.push_back(sequences_.slice(input.sequence, first_row, count));
    const std::int64_t first_wanted = count - num_wanted_of(input);
    BALEEN_CHECK(input.draws.empty() || std::ssize(input.draws) == count - first_wanted);
    std::vector<std::int64_t>& rows = input.draws.empty() ? for_the_host : wanted_rows_;
    for (std::int64_t i = first_wanted; i < count; ++i) rows.push_back(first_row + i);
  }
  wanted_rows_.insert(wanted_rows_.end(), for_the_host.begin(), for_the_host.end());
}

Failure not_numbers(const ModelConfig& config, std::optional<std::int64_t> bad_block) {
  return failure("the logits are not numbers: {}; the weights are damaged or leave the range of float32",
                 bad_block ? fmt::format("first in layer {} ({})", *bad_block,
                                         layer_kind_name(config.layer_kind(*bad_block)))
                           : "every layer's output is finite, the head's is not");
}

Failure Engine::not_numbers() { return baleen::not_numbers(config(), first_bad_block()); }

Activations<2> Engine::last_logits(ConstActivations<3> streams) {
  const auto num_wanted = static_cast<std::int64_t>(wanted_rows_.size());
  std::vector<RowPair> pairs;
  for (const std::int64_t row : wanted_rows_) {
    pairs.push_back({static_cast<std::int32_t>(row), static_cast<std::int32_t>(pairs.size())});
  }
  gather(flat(streams), pairs, wanted_streams_);
  const Activations<2> out = logits_.slice(0, num_wanted);
  if (num_wanted > 0) forward_.logits(stacked(kept_of(wanted_streams_.slice(0, num_wanted))), out);
  return out;
}

Result<StepOutput> Engine::step(std::span<const StepInput> inputs) {
  BALEEN_CHECK(rank_.is_alone());
  if (auto wrong = prepare(inputs)) return std::move(*wrong);
  Result<StepOutput> output = compute(inputs);
  if (output) commit(inputs);
  return output;
}

std::optional<Failure> Engine::prepare(std::span<const StepInput> inputs) {
  if (auto wrong = check(inputs)) return wrong;
  return take_pages(inputs);
}

Result<StepOutput> Engine::compute(std::span<const StepInput> inputs) {
  BALEEN_CHECK(under_way_.empty());
  for (const StepInput& input : inputs) BALEEN_CHECK_EQ(input.num_drafts, 0);
  improve_placement();
  lay_out(inputs);
  const ConstActivations<3> kept = forward_.run({.tokens = tokens_, .slices = slices_});
  if (!rank_.layout.stage().last) return StepOutput();
  const ConstActivations<3> streams = all_rows(kept);
  StepOutput output;
  const bool finite = read_results(inputs, streams, output);
  if (!finite && rank_.is_alone()) return not_numbers();
  if (draft_head_) {
    output.draft_logits = follow(inputs, streams, {});
    for (const StepInput& input : inputs)
      clear_due_rows(input.sequence, sequences_.length(input.sequence) + std::ssize(input.tokens));
    check_reads();
    if (finite && !all_finite(output.draft_logits)) return bad_drafts();
  }
  check_reads();
  // Other ranks do not know yet: the search, in which all take part, is the caller's to begin.
  if (!finite) return baleen::not_numbers(config(), std::nullopt);
  return output;
}

void Engine::commit(std::span<const StepInput> inputs) {
  for (const StepInput& input : inputs) sequences_.commit(input.sequence, input.tokens);
}

bool Engine::read_results(std::span<const StepInput> inputs, ConstActivations<3> streams,
                          StepOutput& output) {
  const Activations<2> out = last_logits(streams);
  const std::int64_t num_wanted = out.extent(0);
  if (num_wanted == 0) return true;
  std::vector<SampleRow> draws;
  for (const StepInput& input : inputs) draws.insert(draws.end(), input.draws.begin(), input.draws.end());
  const std::int64_t num_draws = std::ssize(draws);
  bool finite = true;
  if (num_draws > 0) {
    output.chosen = choose(out.slice(0, num_draws), draws);
    finite = std::ranges::find(output.chosen, kNoToken) == output.chosen.end();
  }
  if (num_draws < num_wanted) {
    output.logits = read_back(out.slice(num_draws, num_wanted), host_logits_);
    finite = finite && all_finite(output.logits);
  }
  check_reads();
  return finite;
}

std::optional<std::int64_t> Engine::first_bad_block() {
  struct Search {
    Engine& engine;
    std::optional<std::int64_t> bad_block;
  } search{*this, std::nullopt};
  forward_.observe_blocks(
      [](void* context, std::int64_t block, ConstActivations<3> streams) {
        auto& [engine, bad_block] = *static_cast<Search*>(context);
        if (bad_block) return;
        const RowRange kept = engine.forward_.kept();
        std::vector<std::byte> row(
            static_cast<std::size_t>(streams.stride(0) * size_of(streams.element_type())));
        for (const std::int64_t wanted : engine.wanted_rows_) {
          if (wanted < kept.begin || wanted >= kept.end) continue;
          const std::int64_t own = wanted - kept.begin;
          engine.device_->memory().download(row, streams.slice(own, own + 1).address());
          const ConstActivations<2> values(row.data(), streams.element_type(), {1, streams.stride(0)});
          if (!all_finite(values)) bad_block = block;
        }
      },
      &search);
  static_cast<void>(forward_.run({.tokens = tokens_, .slices = slices_}));
  forward_.observe_blocks(nullptr, nullptr);
  if (!search.bad_block) return std::nullopt;
  return *search.bad_block + rank_.layout.stage().begin;
}

}  // namespace baleen
