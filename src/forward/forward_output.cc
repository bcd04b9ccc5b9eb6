// The end of attention: the output projection and the sums of ranks that split it.

#include "forward/forward.h"
#include "ops/operations.h"

namespace baleen {

void Forward::gather_rows_of(const Activations<2>& x, std::span<const RowRange> shares) {
  const RowRange own = shares[static_cast<std::size_t>(layout_.group_index())];
  device_.execute<ops::AllGather>(
      {.group = &layout_.group(), .x = x.slice(own.begin, own.end), .rows = shares, .y = x});
}

void Forward::project_output(std::int64_t block) {
  const AttentionWeights& weights = weights_.block(block).attention;
  const BlockValues& values = buffers_.block;
  const std::int64_t num_attending = attending_.size();
  const Activations<2> attended = rows(values.attended, num_attending);
  const std::int64_t num_rows = num_attending * layout_.output_row_groups();
  const std::int64_t num_groups = weights.wo_a.rows / config_.o_lora_rank;
  Activations<2> heads = attended, grouped = rows(values.grouped, num_attending);
  if (layout_.output_heads().size() > 1) {
    heads = rows(messages_.heads, num_rows);
    device_.execute<ops::AllGather>(
        {.group = &layout_.output_heads(), .x = attended, .rows = {}, .y = heads});
  } else if (layout_.output_row_groups() > 1) {
    heads = rows(messages_.heads, num_rows);
    device_.execute<ops::AllToAll>({.group = &layout_.output_rows(), .x = attended, .y = heads});
  }
  if (!messages_.grouped.empty()) grouped = rows(messages_.grouped, num_rows);
  device_.execute<ops::GroupedLinear>(
      {.x = heads.reshaped<3>({num_rows, num_groups, heads.extent(1) / num_groups}),
       .weight = &weights.wo_a,
       .y = grouped,
       .precision = precision_,
       .name = "wo_a"});
  if (layout_.output_sums().size() == 1) {
    const RowRange kept = kept_rows();
    const LinearOutput output{&weights.wo_b, rows(values.attention.f, kept.size()), false, "wo_b"};
    device_.execute<ops::Linear>(
        {.x = grouped.slice(kept.begin - attending_.begin, kept.end - attending_.begin),
         .outputs = {&output, 1},
         .precision = precision_});
    return;
  }
  const Activations<2> sums = rows(messages_.sums, num_rows);
  const LinearOutput output{&weights.wo_b, sums, true, "wo_b"};
  device_.execute<ops::Linear>({.x = grouped, .outputs = {&output, 1}, .precision = precision_});
  add_up_output(sums, rows(values.attention.f, num_rows_));
}

void Forward::add_up_output(const Activations<2>& sums, const Activations<2>& f) {
  const bool sequence_parallel = layout_.plan().sequence_parallel;
  const RankGroup& group = layout_.output_sums();
  if (!sequence_parallel && layout_.output_row_groups() == 1) {
    device_.execute<ops::AllReduce>({.group = &group, .x = sums, .precision = precision_, .y = f});
    return;
  }
  // The rows that this rank keeps, or its part of those of its data-parallel group.
  const RowRange own =
      sequence_parallel ? kept_rows() : dispatched_rows_[static_cast<std::size_t>(layout_.group_index())];
  const Activations<2> y = sequence_parallel ? f.slice(0, own.size()) : f.slice(own.begin, own.end);
  device_.execute<ops::ReduceScatter>(
      {.group = &group, .x = sums, .rows = output_shares_, .precision = precision_, .y = y});
  if (!sequence_parallel && layout_.plan().tp > 1) gather_rows_of(f, dispatched_rows_);
}

}  // namespace baleen
