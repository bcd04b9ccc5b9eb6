#include "engine/engine.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"

namespace baleen {
namespace {

bool all_finite(std::span<const float> values) {
  // x - x is 0 for every finite x and NaN otherwise; a sum of such differences vectorises, a branch does not.
  float sum = 0.0F;
  for (const float value : values) sum += value - value;
  return sum == 0.0F;
}

std::span<const float> row_of(ConstActivations<3> streams, std::int64_t row) {
  return {streams.data() + row * streams.stride(0), static_cast<std::size_t>(streams.stride(0))};
}

}  // namespace

Engine::Engine(const std::filesystem::path& folder, const EngineOptions& options)
    : weights_(folder),
      options_(resolved(options, weights_.config())),
      plan_(plan_memory(config(), options_)),
      cache_(cache_geometry(config(), options_.precision), plan_.capacity),
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
    const Activations<3> both = streams(options_.max_batch_tokens + options_.max_sequences);
    mtp_inputs_ = both.slice(0, options_.max_batch_tokens);
    last_streams_ = both.slice(options_.max_batch_tokens, both.extent(0));
    mtp_logits_ = logits();
  }
  // The plan is a promise: what was reserved is what was computed.
  BALEEN_CHECK_EQ(arena_.peak_bytes(), plan_.activation_bytes + plan_.logit_bytes);
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

std::optional<SequenceId> Engine::open() {
  SequencePages pages(cache_);
  if (!pages.ok()) return std::nullopt;
  const auto id = static_cast<SequenceId>(next_id_++);
  float* last_stream = options_.mtp ? last_streams_[pages.state_slot()].data() : nullptr;
  sequences_.emplace(id, Sequence{std::move(pages), 0, last_stream});
  return id;
}

void Engine::close(SequenceId sequence) { BALEEN_CHECK_EQ(sequences_.erase(sequence), std::size_t{1}); }

std::int64_t Engine::length(SequenceId sequence) const { return sequences_.at(sequence).length; }

std::int64_t Engine::context_tokens() const {
  return std::min(config().max_position_embeddings, plan_.capacity.num_pages * kPageTokens);
}

std::optional<Failure> Engine::check(std::span<const StepInput> inputs) {
  std::int64_t num_rows = 0, num_wanted = 0;
  for (const StepInput& input : inputs) {
    BALEEN_CHECK(sequences_.contains(input.sequence));
    BALEEN_CHECK_EQ(std::ranges::count(inputs, input.sequence, &StepInput::sequence), 1);
    const auto count = static_cast<std::int64_t>(input.tokens.size());
    const std::int64_t length = sequences_.at(input.sequence).length;
    if (count == 0) return failure("a step without tokens for a sequence of {} positions", length);
    if (length + count > config().max_position_embeddings) {
      return failure("{} positions and {} more tokens: the model's context is {}; shorten the prompt", length,
                     count, config().max_position_embeddings);
    }
    for (std::int64_t i = 0; i < count; ++i) {
      const TokenId token = input.tokens[static_cast<std::size_t>(i)];
      if (token < 0 || token >= config().vocab_size) {
        return failure("token id {} at position {}: the vocabulary has ids 0 to {}", token, length + i,
                       config().vocab_size - 1);
      }
    }
    num_rows += count;
    num_wanted += input.wanted == WantedLogits::kAll ? count : input.wanted == WantedLogits::kLast ? 1 : 0;
  }
  if (num_rows == 0 || num_rows > options_.max_batch_tokens) {
    return failure("a step of {} tokens: this engine takes 1 to {}", num_rows, options_.max_batch_tokens);
  }
  if (num_wanted > options_.max_logit_rows) {
    return failure("logits of {} rows in one step: this engine has room for {}", num_wanted,
                   options_.max_logit_rows);
  }
  return std::nullopt;
}

std::optional<Failure> Engine::take_pages(std::span<const StepInput> inputs) {
  for (const StepInput& input : inputs) {
    Sequence& sequence = sequences_.at(input.sequence);
    const std::int64_t end = sequence.length + static_cast<std::int64_t>(input.tokens.size());
    if (sequence.pages.reach(end)) continue;
    for (const StepInput& given_back : inputs) {
      Sequence& other = sequences_.at(given_back.sequence);
      other.pages.shrink(other.length);
    }
    return failure(
        "no room in the cache for position {}: it holds {} positions in all; ask for a larger context",
        end - 1, plan_.capacity.num_pages * kPageTokens);
  }
  return std::nullopt;
}

Result<StepOutput> Engine::step(std::span<const StepInput> inputs) {
  if (auto wrong = check(inputs)) return std::move(*wrong);
  if (auto full = take_pages(inputs)) return std::move(*full);
  tokens_.clear();
  slices_.clear();
  wanted_rows_.clear();
  bad_block_.reset();
  for (const StepInput& input : inputs) {
    const Sequence& sequence = sequences_.at(input.sequence);
    const auto first_row = static_cast<std::int64_t>(tokens_.size());
    const auto count = static_cast<std::int64_t>(input.tokens.size());
    tokens_.insert(tokens_.end(), input.tokens.begin(), input.tokens.end());
    slices_.push_back({.first_row = first_row,
                       .num_tokens = count,
                       .start = sequence.length,
                       .pages = sequence.pages.pages(),
                       .window_pages = sequence.pages.window_pages(),
                       .state_slot = sequence.pages.state_slot()});
    const std::int64_t first_wanted = input.wanted == WantedLogits::kAll    ? 0
                                      : input.wanted == WantedLogits::kLast ? count - 1
                                                                            : count;
    for (std::int64_t i = first_wanted; i < count; ++i) wanted_rows_.push_back(first_row + i);
  }
  const Activations<3> streams = forward_.run({.tokens = tokens_, .slices = slices_});

  const auto num_wanted = static_cast<std::int64_t>(wanted_rows_.size());
  for (std::int64_t i = 0; i < num_wanted; ++i) {
    std::ranges::copy(row_of(streams, wanted_rows_[static_cast<std::size_t>(i)]), wanted_streams_[i].data());
  }
  StepOutput output;
  if (num_wanted > 0) {
    const Activations<2> out = logits_.slice(0, num_wanted);
    forward_.logits(wanted_streams_.slice(0, num_wanted), out);
    output.logits = out;
    if (!all_finite({out.data(), static_cast<std::size_t>(out.size())})) {
      return failure("the logits are not numbers: {}; the weights are damaged or leave the range of float32",
                     first_bad_layer());
    }
  }
  if (options_.mtp) {
    wanted_rows_.clear();  // the observer looks at main layers only
    output.mtp_logits = run_mtp(inputs, streams);
    if (!all_finite({output.mtp_logits.data(), static_cast<std::size_t>(output.mtp_logits.size())})) {
      return failure(
          "the MTP block's logits are not numbers; its weights are damaged or leave the range of float32");
    }
  }
  for (const StepInput& input : inputs) {
    Sequence& sequence = sequences_.at(input.sequence);
    sequence.length += static_cast<std::int64_t>(input.tokens.size());
    sequence.pages.leave_behind(sequence.length);
  }
  return output;
}

ConstActivations<2> Engine::run_mtp(std::span<const StepInput> inputs, ConstActivations<3> streams) {
  // Row for position p: the stream of p, the token p + 1. The stream before a step's first position was kept.
  std::vector<TokenId> tokens;
  std::vector<SequenceSlice> slices;
  std::vector<std::int64_t> wanted;
  std::int64_t row = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const SequenceSlice& slice = slices_[i];
    const Sequence& sequence = sequences_.at(inputs[i].sequence);
    const std::int64_t first_row = row;
    if (slice.start > 0) std::copy_n(sequence.last_stream, config().hc_dim(), mtp_inputs_[row++].data());
    for (std::int64_t t = 0; t + 1 < slice.num_tokens; ++t) {
      std::ranges::copy(row_of(streams, slice.first_row + t), mtp_inputs_[row++].data());
    }
    std::ranges::copy(row_of(streams, slice.first_row + slice.num_tokens - 1), sequence.last_stream);
    if (row == first_row) continue;
    const std::int64_t skipped =
        slice.num_tokens - (row - first_row);  // a sequence's first token predicts nothing
    tokens.insert(tokens.end(), inputs[i].tokens.begin() + skipped, inputs[i].tokens.end());
    slices.push_back(slice);
    slices.back().first_row = first_row;
    slices.back().num_tokens = row - first_row;
    slices.back().start = slice.start > 0 ? slice.start - 1 : 0;
    if (inputs[i].wanted != WantedLogits::kAll) continue;
    for (std::int64_t r = first_row; r < row; ++r) wanted.push_back(r);
  }
  if (tokens.empty()) return {};
  const Activations<3> own =
      forward_.run_mtp({.tokens = tokens, .slices = slices}, mtp_inputs_.slice(0, row), 0);
  const auto num_wanted = static_cast<std::int64_t>(wanted.size());
  if (num_wanted == 0) return {};
  for (std::int64_t i = 0; i < num_wanted; ++i) {
    std::ranges::copy(row_of(own, wanted[static_cast<std::size_t>(i)]), wanted_streams_[i].data());
  }
  const Activations<2> out = mtp_logits_.slice(0, num_wanted);
  forward_.mtp_logits(wanted_streams_.slice(0, num_wanted), 0, out);
  return out;
}

std::string Engine::first_bad_layer() const {
  if (!bad_block_) return "every layer's output is finite, the head's is not";
  return fmt::format("first in layer {} ({})", *bad_block_,
                     layer_kind_name(config().layer_kind(*bad_block_)));
}

}  // namespace baleen
