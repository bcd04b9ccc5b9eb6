// A step as two micro-batches: one computes while the messages of the other are under way.
// (source: parallel MoE 7.2)
//
//     computing   attention 0 │ attention 1 │ experts 0 │ experts 1 │ attention 0 │ attention 1 │ ...
//     messages                  dispatch 0    dispatch 1  combine 0   combine 1     dispatch 0
//
// Both compute on one queue, micro-batch 0 first: a sequence that is cut finds what its first part wrote to
// the cache. All ranks send the same messages in the same order, whatever their rows.

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "forward/forward.h"
#include "ops/operations.h"

namespace baleen {

Forward::Forward(const Forward& whole, int part, std::int64_t first)
    : config_(whole.config_),
      weights_(whole.weights_),
      device_(whole.device_),
      cache_(whole.cache_),
      precision_(whole.precision_),
      layout_(whole.layout_),
      buffers_(whole.buffers_.from_row(config_, first)),
      messages_(
          whole.messages_.from_row(first, layout_.most_arriving_rows(first, config_.num_experts_per_tok))),
      post_number_(part) {}

void Forward::overlap_batches(const BatchOverlap& when) {
  const std::int64_t num_rows = buffers_.streams.extent(0);
  BALEEN_CHECK_EQ(num_rows, rows_of_two_batches(num_rows));
  overlap_ = when;
  for (int part = 0; part < 2; ++part)
    halves_[static_cast<std::size_t>(part)].reset(new Forward(*this, part, part * (num_rows / 2)));
}

bool Forward::cuts(const RaggedBatch& batch) {
  if (halves_[0] == nullptr || observer_ != nullptr || !stream_copies_.empty()) return false;
  const bool has_prompt = std::ranges::any_of(batch.slices, [&](const SequenceSlice& slice) {
    return slice.num_tokens > overlap_.most_decode_tokens;
  });
  const std::vector<std::int64_t> of_ranks =
      device_.batches().largest_of_ranks({batch.num_rows(), has_prompt ? 1 : 0});
  const std::int64_t least = of_ranks[1] > 0 ? overlap_.least_prompt_rows : overlap_.least_decode_rows;
  return least > 0 && of_ranks[0] >= std::max<std::int64_t>(least, 2);
}

Activations<3> Forward::run_cut(const RaggedBatch& batch, std::span<const TokenId> chosen) {
  const std::int64_t num_rows = batch.num_rows(), cut = middle_of(batch, buffers_.streams.extent(0) / 2);
  num_rows_ = num_rows;
  const std::array<RaggedBatch, 2> parts{rows_of(batch, {0, cut}, half_slices_[0]).batch,
                                         rows_of(batch, {cut, num_rows}, half_slices_[1]).batch};
  const std::array<StepRows, 2> step_rows = device_.batches().begin(parts, chosen);
  const std::array<Step, 2> steps{Step{parts[0], step_rows[0]}, Step{parts[1], step_rows[1]}};
  // Behind rows of padding the second part's streams would not follow the first one's, and a captured step
  // has one place for them.
  const bool adjoin = step_rows[0].num_rows == cut && cut > device_.traits().max_replayed_rows;
  device_.batches().select(0);
  device_.steps().run(StepPart::kHalves, [&] { run_halves(steps, adjoin); });
  if (!adjoin && cut < num_rows) {
    std::vector<RowPair> pairs;
    for (std::int64_t row = cut; row < num_rows; ++row)
      pairs.push_back({static_cast<std::int32_t>(row - cut), static_cast<std::int32_t>(row)});
    const std::int64_t width = config_.hc_dim();
    device_.execute<ops::GatherRows>(
        {.from = buffers_.draft_streams.reshaped<2>({buffers_.draft_streams.extent(0), width}),
         .pairs = pairs,
         .to = buffers_.streams.reshaped<2>({buffers_.streams.extent(0), width})});
  }
  return rows(buffers_.streams, num_rows);
}

void Forward::capture_halves(std::int64_t num_rows) {
  device_.steps().capture_halves(num_rows, [&](const std::array<StepRows, 2>& padding) {
    run_halves({Step{{}, padding[0]}, Step{{}, padding[1]}}, false);
  });
}

void Forward::run_halves(const std::array<Step, 2>& steps, bool adjoin) {
  const std::array<std::int64_t, 2> num_rows{steps[0].rows.num_rows, steps[1].rows.num_rows};
  const std::array<Activations<3>, 2> streams{
      rows(buffers_.streams, num_rows[0]),
      adjoin ? buffers_.streams.slice(num_rows[0], num_rows[0] + num_rows[1])
             : rows(buffers_.draft_streams, num_rows[1])};
  const std::int64_t num_blocks = config_.num_hidden_layers;
  std::array<Exchange, 2> exchanges;
  const auto each = [&](const auto& phase) {
    for (std::size_t part = 0; part < 2; ++part) {
      device_.batches().select(static_cast<int>(part));
      phase(*halves_[part], BlockRun{0, num_blocks, steps[part], streams[part]}, exchanges[part]);
    }
  };
  each([](Forward& half, const BlockRun& run, const Exchange&) {
    half.share_rows(run.step);
    half.begin_main(run.step, run.streams);
  });
  for (std::int64_t block = 0; block < num_blocks; ++block) {
    each([&](Forward& half, const BlockRun& run, Exchange& exchange) {
      if (block > 0) half.take_outputs(block - 1, run);
      half.enter_block(block, run);
      half.attention(block, run.step);
      half.enter_experts(block, run);
      exchange.call = half.choose_experts(block, run.step, block + 1 == num_blocks);
      exchange.placement = half.place_experts(exchange.call, block);
      half.post([&] { device_.execute<ops::Dispatch>(half.dispatch_of(exchange.call, exchange.placement)); });
    });
    each([&](Forward& half, const BlockRun&, const Exchange& exchange) {
      half.run_arrived(exchange);
      half.post([&] { device_.execute<ops::Combine>(half.combine_of(exchange)); });
    });
  }
  each([&](Forward& half, const BlockRun& run, const Exchange&) { half.take_outputs(num_blocks - 1, run); });
}

void Forward::post(const std::function<void()>& messages) {
  device_.messages().post(post_number_, device_.traits().posted.half_step_units, messages);
}

void Forward::take_outputs(std::int64_t block, const BlockRun& run) {
  device_.messages().join(post_number_);
  leave_block(block, run);
}

}  // namespace baleen
