#include "forward/overlap.h"

#include <algorithm>

#include "base/check.h"
#include "ops/operations.h"

namespace baleen {

Overlap::Overlap(const PassContext& context, ResidualStreams& streams, Attention& attention,
                 MixtureOfExperts& experts, const BatchOverlap& when)
    : context_(context), streams_(streams), attention_(attention), experts_(experts), when_(when) {
  const std::int64_t num_rows = streams.arrays().main.extent(0);
  BALEEN_CHECK_EQ(num_rows, rows_of_two_batches(num_rows));
  streams.cut(num_rows / 2);
  attention.cut(num_rows / 2);
  experts.cut(num_rows / 2);
}

bool Overlap::cuts(const RaggedBatch& batch) {
  if (streams_.is_read_between_blocks()) return false;
  const bool has_prompt = std::ranges::any_of(
      batch.slices, [&](const SequenceSlice& slice) { return slice.num_tokens > when_.most_decode_tokens; });
  const std::vector<std::int64_t> of_ranks =
      context_.device.batches().largest_of_ranks({batch.num_rows(), has_prompt ? 1 : 0});
  const std::int64_t least = of_ranks[1] > 0 ? when_.least_prompt_rows : when_.least_decode_rows;
  return least > 0 && of_ranks[0] >= std::max<std::int64_t>(least, 2);
}

Activations<3> Overlap::run(const RaggedBatch& batch, std::span<const TokenId> chosen) {
  // A cut slice's first part would want window rows that the second part is yet to write.
  BALEEN_CHECK(std::ranges::none_of(batch.slices, &SequenceSlice::sees_ahead));
  Device& device = context_.device;
  const Activations<3>& main = streams_.arrays().main;
  const std::int64_t num_rows = batch.num_rows(), cut = middle_of(batch, main.extent(0) / 2);
  const std::array<RaggedBatch, 2> parts{rows_of(batch, {0, cut}, slices_[0]).batch,
                                         rows_of(batch, {cut, num_rows}, slices_[1]).batch};
  const std::array<StepRows, 2> step_rows = device.batches().begin(parts, chosen);
  const std::array<Step, 2> steps{Step{parts[0], step_rows[0]}, Step{parts[1], step_rows[1]}};
  // Behind rows of padding the second part's streams would not follow the first one's, and a captured step
  // has one place for them.
  const bool adjoin = step_rows[0].num_rows == cut && cut > device.traits().max_replayed_rows;
  device.batches().select(0);
  device.steps().run(StepPart::kHalves, [&] { run_parts(steps, adjoin); });
  if (!adjoin && cut < num_rows) {
    std::vector<RowPair> pairs;
    for (std::int64_t row = cut; row < num_rows; ++row)
      pairs.push_back({static_cast<std::int32_t>(row - cut), static_cast<std::int32_t>(row)});
    const auto flat = [&](const Activations<3>& all) {
      return all.reshaped<2>({all.extent(0), context_.config.hc_dim()});
    };
    device.execute<ops::GatherRows>(
        {.from = flat(streams_.arrays().drafts), .pairs = pairs, .to = flat(main)});
  }
  return rows(main, num_rows);
}

void Overlap::capture(std::int64_t num_rows) {
  const bool cuts = !streams_.is_read_between_blocks() && when_.least_decode_rows > 0 &&
                    num_rows >= std::max<std::int64_t>(when_.least_decode_rows, 2);
  if (!cuts) return;
  const std::int64_t part_rows = context_.device.traits().padded_rows((num_rows + 1) / 2);
  context_.device.steps().capture_halves(part_rows, [&](const std::array<StepRows, 2>& padding) {
    run_parts({Step{{}, padding[0]}, Step{{}, padding[1]}}, false);
  });
}

void Overlap::run_parts(const std::array<Step, 2>& steps, bool adjoin) {
  const StreamArrays& arrays = streams_.arrays();
  const std::int64_t num_first = steps[0].rows.num_rows, num_second = steps[1].rows.num_rows;
  const std::int64_t num_blocks = context_.rank.num_layers();
  const RowShares first_shares(context_.layout, steps[0]), second_shares(context_.layout, steps[1]);
  const std::array<Pass, 2> passes{{{.step = steps[0],
                                     .shares = first_shares,
                                     .begin = 0,
                                     .end = num_blocks,
                                     .streams = rows(arrays.main, num_first)},
                                    {.step = steps[1],
                                     .shares = second_shares,
                                     .begin = 0,
                                     .end = num_blocks,
                                     .streams = adjoin ? arrays.main.slice(num_first, num_first + num_second)
                                                       : rows(arrays.drafts, num_second),
                                     .micro_batch = 1}}};
  std::array<MixtureOfExperts::Exchange, 2> exchanges;
  const auto each = [&](const auto& phase) {
    for (const Pass& pass : passes) {
      context_.device.batches().select(pass.micro_batch);
      phase(pass, exchanges[static_cast<std::size_t>(pass.micro_batch)]);
    }
  };
  // Once the outputs of other ranks' experts are there.
  const auto leave_block = [&](std::int64_t block, const Pass& pass) {
    experts_.join(pass);
    streams_.leave_block(block, pass);
  };
  each([&](const Pass& pass, const auto&) {
    attention_.begin(pass);
    streams_.begin(pass);
  });
  for (std::int64_t block = 0; block < num_blocks; ++block) {
    each([&](const Pass& pass, auto& exchange) {
      if (block > 0) leave_block(block - 1, pass);
      streams_.enter_block(block, pass);
      attention_.run(block, pass, streams_.half(pass));
      streams_.enter_experts(block, pass);
      exchange = experts_.post_dispatch(block, pass, streams_.half(pass));
    });
    each([&](const Pass& pass, const auto& exchange) { experts_.post_combine(exchange, pass); });
  }
  each([&](const Pass& pass, const auto&) { leave_block(num_blocks - 1, pass); });
}

}  // namespace baleen
