#include "forward/heads.h"

#include "base/check.h"
#include "ops/operations.h"

namespace baleen {

HeadMessages::HeadMessages(const RankConfig& rank, const RankLayout& layout, MessageArrays& arrays) {
  const std::int64_t parts = layout.vocabulary().size();
  if (layout.stage_ranks().size() == 1 || !layout.stage().last || parts == 1) return;
  logits = arrays.floats(arrays.max_rows(), (rank.model().vocab_size + parts - 1) / parts);
}

HcHeadArgs Heads::mixed(ConstActivations<3> streams, const FinalMixing& mixing, Activations<2> out) const {
  return {.streams = streams,
          .weights = mixing.weights,
          .norm_eps = context_.norm_eps(),
          .hc_eps = static_cast<float>(context_.config.hc_eps),
          .precision = context_.precision,
          .y = out,
          .given = mixing.given};
}

RmsNormArgs Heads::normed(ConstActivations<2> x, std::span<const float> norm, Activations<2> out) const {
  return {.x = x, .weight = norm, .eps = context_.norm_eps(), .precision = context_.precision, .y = out};
}

void Heads::logits(ConstActivations<3> streams, const FinalMixing& mixing, std::span<const float> norm,
                   Activations<2> out) {
  const std::int64_t num_rows = out.extent(0);
  const std::vector<RowRange> kept_by_rank = context_.layout.kept_rows(num_rows);
  const RowRange kept = kept_by_rank[static_cast<std::size_t>(context_.layout.group_index())];
  BALEEN_CHECK_EQ(streams.extent(0), kept.size());
  const Activations<2> all = rows(u_, num_rows), own = all.slice(kept.begin, kept.end);
  context_.device.executor().enter_block(-1);
  context_.device.execute<ops::HcHead>(mixed(streams, mixing, own));
  context_.device.execute<ops::RmsNorm>(normed(own, norm, own));
  if (context_.layout.plan().shares_rows()) gather_rows_of_group(context_, all, kept_by_rank);
  project(all, out);
}

void Heads::collapse(ConstActivations<3> streams, const FinalMixing& mixing, Activations<2> out) {
  const std::vector<RowRange> kept_by_rank = context_.layout.kept_rows(out.extent(0));
  const RowRange kept = kept_by_rank[static_cast<std::size_t>(context_.layout.group_index())];
  BALEEN_CHECK_EQ(streams.extent(0), kept.size());
  context_.device.executor().enter_block(-1);
  context_.device.execute<ops::HcHead>(mixed(streams, mixing, out.slice(kept.begin, kept.end)));
  if (context_.layout.plan().shares_rows()) gather_rows_of_group(context_, out, kept_by_rank);
}

void Heads::logits(ConstActivations<2> collapsed, std::span<const float> norm, Activations<2> out) {
  const Activations<2> x = rows(u_, out.extent(0));
  context_.device.executor().enter_block(-1);
  context_.device.execute<ops::RmsNorm>(normed(collapsed, norm, x));
  project(x, out);
}

void Heads::project(const Activations<2>& x, const Activations<2>& out) {
  const WeightMatrix& head = context_.weights.head;
  const RankGroup& group = context_.layout.vocabulary();
  if (group.size() == 1) {
    context_.device.execute<ops::LmHead>({.x = x, .weight = &head, .logits = out});
    return;
  }
  const Activations<2> part = rows(messages_.logits, x.extent(0), head.rows);
  context_.device.execute<ops::LmHead>({.x = x, .weight = &head, .logits = part});
  context_.device.execute<ops::AllGather>({.group = &group, .x = part, .rows = {}, .y = out});
}

}  // namespace baleen
