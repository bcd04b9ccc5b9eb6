#include "forward/pass.h"

#include "ops/operations.h"

namespace baleen {

RowShares::RowShares(const RankLayout& layout, const Step& step)
    : place_(static_cast<std::size_t>(layout.group_index())),
      num_rows_(step.rows.num_rows),
      kept_(layout.kept_rows(num_rows_)),
      dispatched_(even_rows(num_rows_, layout.plan().group_ranks())),
      output_shares_(layout.output_shares(num_rows_ * layout.output_row_groups())),
      attending_(layout.attending(num_rows_)),
      attending_batch_(layout.plan().cp > 1 ? rows_of(step.batch, attending_, attending_slices_)
                                            : BatchPart{.batch = step.batch}) {}

std::span<const TokenId> Pass::kept_tokens() const {
  const RowRange kept = shares.kept();
  return step.rows.tokens.subspan(static_cast<std::size_t>(kept.begin),
                                  static_cast<std::size_t>(kept.size()));
}

void gather_rows_of_group(const PassContext& context, const Activations<2>& x,
                          std::span<const RowRange> shares) {
  const RowRange own = shares[static_cast<std::size_t>(context.layout.group_index())];
  context.device.execute<ops::AllGather>(
      {.group = &context.layout.group(), .x = x.slice(own.begin, own.end), .rows = shares, .y = x});
}

}  // namespace baleen
