// Blocks one after the other: what stands between attention and experts, and between blocks.

#include <algorithm>

#include "forward/forward.h"
#include "ops/operations.h"

namespace baleen {

void Forward::run_blocks(const BlockRun& run) {
  if (experts_ != nullptr && experts_->copies_for(num_rows_)) experts_->begin_pass(run.begin, run.end);
  for (std::int64_t block = run.begin; block < run.end; ++block) {
    enter_block(block, run);
    attention(block, run.step);
    enter_experts(block, run);
    moe(block, run.step, block + 1 == run.end);
    leave_block(block, run);
  }
}

HcPreArgs Forward::entry(const BlockRun& run, const HcWeights& hc, const HalfBlockValues& half,
                         const RowRange& own) const {
  const std::int64_t num_rows = run.streams.extent(0);
  return {.streams = run.streams,
          .weights = hc,
          .norm_eps = static_cast<float>(config_.rms_norm_eps),
          .hc_eps = static_cast<float>(config_.hc_eps),
          .sinkhorn_iterations = static_cast<int>(config_.hc_sinkhorn_iters),
          .precision = precision_,
          .u = half.entered.slice(own.begin, own.end),
          .post = rows(half.post, num_rows),
          .comb = rows(half.comb, num_rows)};
}

RmsNormArgs Forward::entry_norm(std::span<const float> weight, const HalfBlockValues& half,
                                const RowRange& own, bool quantises) const {
  return {.x = half.entered.slice(own.begin, own.end),
          .weight = weight,
          .eps = static_cast<float>(config_.rms_norm_eps),
          .precision = precision_,
          .y = half.u.slice(own.begin, own.end),
          .y_fp8 = quantises ? half.u_fp8 : Fp8Rows()};
}

// With split heads attention sees all rows: those that other ranks keep come to their places, and of rows
// that are to be gathered attention makes the codes. Experts see this rank's alone.

RowRange Forward::attention_rows(const BlockRun& run) const {
  return layout_.plan().sequence_parallel ? kept_rows() : RowRange{0, run.streams.extent(0)};
}

HcPreArgs Forward::attention_entry(std::int64_t block, const BlockRun& run) const {
  return entry(run, weights_.block(block).hc_attn, buffers_.block.attention, attention_rows(run));
}

RmsNormArgs Forward::attention_norm(std::int64_t block, const BlockRun& run) const {
  return entry_norm(weights_.block(block).attn_norm, buffers_.block.attention, attention_rows(run),
                    !layout_.plan().sequence_parallel);
}

HcPostArgs Forward::left_half(const BlockRun& run, const HalfBlockValues& half) const {
  const std::int64_t num_rows = run.streams.extent(0);
  return {.f = rows(half.f, num_rows),
          .post = rows(half.post, num_rows),
          .comb = rows(half.comb, num_rows),
          .precision = precision_,
          .streams = run.streams};
}

void Forward::enter_block(std::int64_t block, const BlockRun& run) {
  if (block > run.begin && !stops_after(block - 1)) return;  // entered as the one before it was left
  device_.execute<ops::HcPre, ops::RmsNorm>(attention_entry(block, run), attention_norm(block, run));
}

void Forward::enter_experts(std::int64_t block, const BlockRun& run) {
  const BlockValues& values = buffers_.block;
  const RowRange all{0, run.streams.extent(0)};
  const HcPreArgs next = entry(run, weights_.block(block).hc_ffn, values.experts, all);
  const RmsNormArgs norm = entry_norm(weights_.block(block).ffn_norm, values.experts, all, true);
  device_.execute<ops::HcPost, ops::HcPre, ops::RmsNorm>(left_half(run, values.attention), next, norm);
}

void Forward::leave_block(std::int64_t block, const BlockRun& run) {
  const HcPostArgs left = left_half(run, buffers_.block.experts);
  if (block + 1 == run.end || stops_after(block)) {
    device_.execute<ops::HcPost>(left);
  } else {
    device_.execute<ops::HcPost, ops::HcPre, ops::RmsNorm>(left, attention_entry(block + 1, run),
                                                           attention_norm(block + 1, run));
  }
  if (const Activations<3>* const copy = copy_after(block)) copy_streams(run.streams, *copy);
  if (observer_ != nullptr) observer_(observer_context_, block, run.streams);
}

const Activations<3>* Forward::copy_after(std::int64_t block) const {
  const auto found =
      std::ranges::find(stream_copies_, block, &std::pair<std::int64_t, Activations<3>>::first);
  return found == stream_copies_.end() ? nullptr : &found->second;
}

bool Forward::stops_after(std::int64_t block) const {
  return observer_ != nullptr || copy_after(block) != nullptr;
}

void Forward::copy_streams(const Activations<3>& streams, const Activations<3>& copy) {
  const std::int64_t num_rows = streams.extent(0), width = streams.extent(1) * streams.extent(2);
  std::vector<RowPair> pairs(static_cast<std::size_t>(num_rows));
  for (std::int32_t row = 0; row < num_rows; ++row) pairs[static_cast<std::size_t>(row)] = {row, row};
  device_.execute<ops::GatherRows>({.from = streams.reshaped<2>({num_rows, width}),
                                    .pairs = pairs,
                                    .to = rows(copy, num_rows).reshaped<2>({num_rows, width})});
}

}  // namespace baleen
