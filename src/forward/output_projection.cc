#include "forward/output_projection.h"

#include "ops/operations.h"

namespace baleen {

OutputArrays OutputArrays::from_row(std::int64_t first) const {
  OutputArrays rest;
  rest.grouped = rows_from(grouped, first);
  return rest;
}

OutputMessages::OutputMessages(const RankConfig& rank, const RankLayout& layout, MessageArrays& arrays) {
  if (layout.stage_ranks().size() == 1) return;
  // A rank of the config's heads has all of its group's, gathered, or a part of its own, exchanged for rows.
  const std::int64_t gathered = layout.output_heads().size(), exchanged = layout.output_row_groups();
  if (gathered == 1 && exchanged == 1) return;
  const std::int64_t num_rows = arrays.max_rows() * exchanged;
  heads = arrays.values(num_rows, rank.q_dim() * gathered / exchanged);
  grouped = arrays.values(num_rows, layout.output_groups() * rank.model().o_lora_rank);
}

std::int64_t output_sum_rows(const RankLayout& layout, std::int64_t max_rows) {
  return layout.output_sums().size() == 1 ? 0 : max_rows * layout.output_row_groups();
}

OutputProjection::OutputProjection(const PassContext& context, ActivationArrays& arrays,
                                   MessageArrays& messages, const Activations<2>& sums)
    : context_(context),
      arrays_(OutputArrays(context.rank, arrays)),
      messages_(context.rank, context.layout, messages),
      sums_(sums) {}

Activations<2> OutputProjection::whole_groups(const Pass& pass, const Activations<2>& attended) {
  const RankLayout& layout = context_.layout;
  const std::int64_t num_rows = pass.shares.attending().size() * layout.output_row_groups();
  if (layout.output_heads().size() > 1) {
    const Activations<2> heads = rows(messages_.heads, num_rows);
    context_.device.execute<ops::AllGather>(
        {.group = &layout.output_heads(), .x = attended, .rows = {}, .y = heads});
    return heads;
  }
  if (layout.output_row_groups() > 1) {
    const Activations<2> heads = rows(messages_.heads, num_rows);
    context_.device.execute<ops::AllToAll>({.group = &layout.output_rows(), .x = attended, .y = heads});
    return heads;
  }
  return attended;
}

void OutputProjection::run(std::int64_t block, const Pass& pass, const Activations<2>& attended,
                           const Activations<2>& f) {
  const AttentionWeights& weights = context_.weights.block(block).attention;
  const RowRange attending = pass.shares.attending();
  const std::int64_t num_rows = attending.size() * context_.layout.output_row_groups();
  const std::int64_t num_groups = weights.wo_a.rows / context_.config.o_lora_rank;
  const Activations<2> heads = whole_groups(pass, attended);
  const Activations<2> grouped = messages_.grouped.empty() ? rows(arrays_.of(pass).grouped, attending.size())
                                                           : rows(messages_.grouped, num_rows);
  context_.device.execute<ops::GroupedLinear>(
      {.x = heads.reshaped<3>({num_rows, num_groups, heads.extent(1) / num_groups}),
       .weight = &weights.wo_a,
       .y = grouped,
       .precision = context_.precision,
       .name = "wo_a"});
  if (context_.layout.output_sums().size() == 1) {
    const RowRange kept = pass.shares.kept();
    const LinearOutput output{&weights.wo_b, rows(f, kept.size()), false, "wo_b"};
    context_.device.execute<ops::Linear>(
        {.x = grouped.slice(kept.begin - attending.begin, kept.end - attending.begin),
         .outputs = {&output, 1},
         .precision = context_.precision});
    return;
  }
  const Activations<2> sums = rows(sums_, num_rows);
  const LinearOutput output{&weights.wo_b, sums, true, "wo_b"};
  context_.device.execute<ops::Linear>(
      {.x = grouped, .outputs = {&output, 1}, .precision = context_.precision});
  add_up(pass, sums, rows(f, pass.num_rows()));
}

void OutputProjection::add_up(const Pass& pass, const Activations<2>& sums, const Activations<2>& f) {
  const RankLayout& layout = context_.layout;
  const bool sequence_parallel = layout.plan().sequence_parallel;
  const RankGroup& group = layout.output_sums();
  if (!sequence_parallel && layout.output_row_groups() == 1) {
    context_.device.execute<ops::AllReduce>(
        {.group = &group, .x = sums, .precision = context_.precision, .y = f});
    return;
  }
  // The rows that this rank keeps, or its part of those of its data-parallel group.
  const RowRange own = sequence_parallel ? pass.shares.kept() : pass.shares.dispatched();
  const Activations<2> y = sequence_parallel ? f.slice(0, own.size()) : f.slice(own.begin, own.end);
  context_.device.execute<ops::ReduceScatter>({.group = &group,
                                               .x = sums,
                                               .rows = pass.shares.output_shares(),
                                               .precision = context_.precision,
                                               .y = y});
  if (!sequence_parallel && layout.plan().tp > 1)
    gather_rows_of_group(context_, f, pass.shares.dispatched_by_rank());
}

}  // namespace baleen
