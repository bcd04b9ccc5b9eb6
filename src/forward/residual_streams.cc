#include "forward/residual_streams.h"

#include <algorithm>

#include "ops/operations.h"

namespace baleen {
namespace {

/// Of `pairs`, whose first rows ascend, those of each rank: its rows are `kept`. The last one has the rest.
std::vector<RowRange> owned_pairs(std::span<const RowPair> pairs, std::span<const RowRange> kept) {
  std::vector<RowRange> owned;
  std::int64_t begin = 0;
  for (const RowRange& rows : kept) {
    const auto behind = std::ranges::lower_bound(pairs, rows.end, {}, &RowPair::from);
    const std::int64_t end = std::max(begin, static_cast<std::int64_t>(behind - pairs.begin()));
    owned.push_back({begin, end});
    begin = end;
  }
  owned.back().end = std::ssize(pairs);
  return owned;
}

}  // namespace

HalfBlockArrays::HalfBlockArrays(const RankConfig& rank, ActivationArrays& arrays)
    : half{.u = arrays.values(rank.model().hidden_size),
           .u_fp8 = arrays.fp8(rank.model().hidden_size, rank.model().activation_group()),
           .f = arrays.values(rank.model().hidden_size)},
      post(arrays.floats(rank.model().hc_mult)),
      comb(arrays.floats(rank.model().hc_mult, rank.model().hc_mult)) {
  if (!rank.model().lags_mixing()) return;
  pre = arrays.floats(rank.model().hc_mult);
  first = arrays.floats(rank.model().hc_mult);
  handed = arrays.floats(rank.model().hc_mult);
}

HalfBlockArrays HalfBlockArrays::from_row(std::int64_t begin) const {
  HalfBlockArrays rest;
  rest.half = {.u = rows_from(half.u, begin),
               .u_fp8 = rows_from(half.u_fp8, begin, half.u.extent(1)),
               .f = rows_from(half.f, begin)};
  rest.post = rows_from(post, begin);
  rest.comb = rows_from(comb, begin);
  rest.pre = rows_from(pre, begin);
  rest.first = rows_from(first, begin);
  rest.handed = rows_from(handed, begin);
  return rest;
}

StreamArrays::StreamArrays(const RankConfig& rank, ActivationArrays& arrays)
    : main(arrays.values(rank.model().hc_mult, rank.model().hidden_size)),
      drafts(arrays.values(rank.model().hc_mult, rank.model().hidden_size)) {}

ResidualStreams::ResidualStreams(const PassContext& context, ActivationArrays& arrays)
    : context_(context),
      engram_(context, arrays),
      arrays_(context.rank, arrays),
      halves_(HalfBlockArrays(context.rank, arrays)) {
  const Activations<2>& first = halves_.whole().first;
  if (first.empty()) return;
  std::vector<float> weights(static_cast<std::size_t>(first.size()));
  for (std::size_t row = 0; row < weights.size(); row += static_cast<std::size_t>(first.extent(1)))
    weights[row] = 1;
  context.device.memory().upload(first.address(), std::as_bytes(std::span(weights)));
}

void ResidualStreams::begin(const Pass& pass) {
  const RankLayout& layout = context_.layout;
  if (layout.stage().first) {
    context_.device.execute<ops::Embed>({.tokens = pass.kept_tokens(),
                                         .first_row = pass.shares.kept().begin,
                                         .table = context_.weights.embedding,
                                         .out = pass.streams});
  } else {
    context_.device.execute<ops::Receive>({.pair = &layout.previous_stage(), .y = pass.streams});
    if (const Activations<3> pre = handed_mixing(pass); !pre.empty())
      context_.device.execute<ops::Receive>({.pair = &layout.previous_stage(), .y = pre});
    const Activations<3> means = means_before(context_.rank.stage().begin, pass);
    if (!means.empty()) context_.device.execute<ops::Receive>({.pair = &layout.previous_stage(), .y = means});
  }
}

void ResidualStreams::end(const Pass& pass) {
  const RankLayout& layout = context_.layout;
  if (layout.stage().last) return;
  context_.device.execute<ops::Send>(
      {.pair = &layout.next_stage(), .num_ranks = layout.plan().num_devices, .x = pass.streams});
  if (const Activations<3> pre = handed_mixing(pass); !pre.empty()) {
    context_.device.execute<ops::Send>(
        {.pair = &layout.next_stage(), .num_ranks = layout.plan().num_devices, .x = pre});
  }
  const Activations<3> means = means_before(context_.rank.stage().end, pass);
  if (means.empty()) return;
  context_.device.execute<ops::Send>(
      {.pair = &layout.next_stage(), .num_ranks = layout.plan().num_devices, .x = means});
}

Activations<3> ResidualStreams::handed_mixing(const Pass& pass) const {
  const Activations<2>& pre = halves_.of(pass).pre;
  return pre.empty() ? Activations<3>() : pre.reshaped<3>({pass.num_kept(), 1, pre.extent(1)});
}

HcPreArgs ResidualStreams::mixed(const Pass& pass, const HcWeights& weights, const RowRange& own,
                                 bool is_first) const {
  const HalfBlockArrays& values = halves_.of(pass);
  const bool lags = !values.pre.empty();
  const Activations<2> pre = lags ? rows(values.pre, pass.num_kept()) : Activations<2>();
  const RowRange kept = pass.shares.kept();
  const auto first = [&] {
    return pass.resumes ? values.handed.slice(kept.begin, kept.end) : rows(values.first, pass.num_kept());
  };
  return {.streams = pass.streams,
          .weights = weights,
          .norm_eps = context_.norm_eps(),
          .hc_eps = static_cast<float>(context_.config.hc_eps),
          .sinkhorn_iterations = static_cast<int>(context_.config.hc_sinkhorn_iters),
          .precision = context_.precision,
          .u = values.half.u.slice(own.begin, own.end),
          .post = rows(values.post, pass.num_kept()),
          .comb = rows(values.comb, pass.num_kept()),
          .incoming = lags && is_first ? first() : pre,
          .pre = pre};
}

RmsNormArgs ResidualStreams::normed(const Pass& pass, std::span<const float> weight, const RowRange& own,
                                    bool quantises) const {
  const HalfBlock& values = half(pass);
  const Activations<2> u = values.u.slice(own.begin, own.end);
  return {.x = u,
          .weight = weight,
          .eps = context_.norm_eps(),
          .precision = context_.precision,
          .y = u,
          .y_fp8 = quantises ? values.u_fp8 : Fp8Rows()};
}

// With split heads attention sees all rows: those that other ranks keep come to their places, and of rows
// that are to be gathered attention makes the codes. Experts see this rank's alone.

RowRange ResidualStreams::attention_rows(const Pass& pass) const {
  return context_.layout.plan().sequence_parallel ? pass.shares.kept() : RowRange{0, pass.num_kept()};
}

HcPreArgs ResidualStreams::mixed_for_attention(std::int64_t block, const Pass& pass) const {
  const bool begins = context_.layout.stage().first || context_.rank.is_draft_block(block) || pass.resumes;
  return mixed(pass, context_.weights.block(block).hc_attn, attention_rows(pass),
               begins && block == pass.begin);
}

RmsNormArgs ResidualStreams::normed_for_attention(std::int64_t block, const Pass& pass) const {
  return normed(pass, context_.weights.block(block).attn_norm, attention_rows(pass),
                !context_.layout.plan().sequence_parallel);
}

HcPostArgs ResidualStreams::left(const Pass& pass) const {
  const HalfBlockArrays& values = halves_.of(pass);
  return {.f = rows(values.half.f, pass.num_kept()),
          .post = rows(values.post, pass.num_kept()),
          .comb = rows(values.comb, pass.num_kept()),
          .precision = context_.precision,
          .streams = pass.streams};
}

void ResidualStreams::enter_block(std::int64_t block, const Pass& pass) {
  if (block > pass.begin && !stops_before(block)) return;  // entered as the one before it was left
  const bool has_engram = engram_.has(block) && !(pass.resumes && block == pass.begin);
  if (has_engram) engram_.run(block, pass);
  if (means_.of_inputs) take_mean(block, pass);
  context_.device.execute<ops::HcPre, ops::RmsNorm>(mixed_for_attention(block, pass),
                                                    normed_for_attention(block, pass));
}

void ResidualStreams::enter_experts(std::int64_t block, const Pass& pass) {
  const BlockWeights& weights = context_.weights.block(block);
  const RowRange all{0, pass.num_kept()};
  context_.device.execute<ops::HcPost, ops::HcPre, ops::RmsNorm>(
      left(pass), mixed(pass, weights.hc_ffn, all, false), normed(pass, weights.ffn_norm, all, true));
}

void ResidualStreams::leave_block(std::int64_t block, const Pass& pass) {
  if (block + 1 == pass.end || stops_before(block + 1)) {
    context_.device.execute<ops::HcPost>(left(pass));
  } else {
    context_.device.execute<ops::HcPost, ops::HcPre, ops::RmsNorm>(
        left(pass), mixed_for_attention(block + 1, pass), normed_for_attention(block + 1, pass));
  }
  if (!means_.of_inputs) take_mean(block, pass);
  if (observer_ != nullptr) observer_(observer_context_, block, pass.streams);
}

void ResidualStreams::enter_entries(std::int64_t block, const Pass& pass) {
  if (engram_.has(block)) engram_.run(block, pass);
  HcPreArgs mixed = mixed_for_attention(block, pass);
  if (!mixed.pre.empty()) mixed.pre = rows(halves_.of(pass).handed, pass.num_kept());  // free until `resume`
  context_.device.execute<ops::HcPre, ops::RmsNorm>(mixed, normed_for_attention(block, pass));
}

void ResidualStreams::resume(const Pass& pass, const HandedRows& from) {
  const RankLayout& layout = context_.layout;
  const std::int64_t num_rows = pass.num_rows();
  std::vector<RowPair> pairs(from.rows.begin(), from.rows.end());
  // Rows of padding get values too, as those of any step have some.
  const std::int32_t last = pairs.empty() ? 0 : pairs.back().from;
  while (std::ssize(pairs) < num_rows) pairs.push_back({last, static_cast<std::int32_t>(pairs.size())});
  std::vector<RowRange> owned;
  RowRange own{0, num_rows};
  if (layout.plan().shares_rows()) {
    owned = owned_pairs(pairs, from.kept);
    own = owned[static_cast<std::size_t>(layout.group_index())];
    pairs = {pairs.begin() + own.begin, pairs.begin() + own.end};
    const RowRange kept = from.kept[static_cast<std::size_t>(layout.group_index())];
    for (RowPair& pair : pairs) pair.from -= static_cast<std::int32_t>(kept.begin);
  }
  const auto hand = [&](const Activations<2>& source, const Activations<2>& target) {
    if (!pairs.empty())
      context_.device.execute<ops::GatherRows>({.from = source, .pairs = pairs, .to = target});
    if (owned.empty()) return;
    const Activations<2> all = rows(target, num_rows);
    context_.device.execute<ops::AllGather>(
        {.group = &layout.group(), .x = all.slice(own.begin, own.end), .rows = owned, .y = all});
  };
  const auto flat = [](const Activations<3>& streams) {
    return streams.reshaped<2>({streams.extent(0), streams.extent(1) * streams.extent(2)});
  };
  hand(flat(arrays_.main), flat(arrays_.drafts));
  const HalfBlockArrays& values = halves_.of(pass);
  if (!values.pre.empty()) hand(values.pre, values.handed);
}

Activations<3> ResidualStreams::means_before(std::int64_t layer, const Pass& pass) const {
  if (means_.layers.empty() || means_.layers.front() >= layer) return {};
  return means_.values.reshaped<3>({pass.num_kept(), 1, means_.values.extent(1)});
}

void ResidualStreams::take_mean(std::int64_t block, const Pass& pass) const {
  const auto place = mean_of(block);
  if (!place) return;
  context_.device.execute<ops::StreamMean>({.streams = pass.streams,
                                            .precision = context_.precision,
                                            .out = rows(means_.values, pass.num_kept()),
                                            .first_column = *place * context_.config.hidden_size});
}

std::optional<std::int64_t> ResidualStreams::mean_of(std::int64_t block) const {
  const auto found = std::ranges::find(means_.layers, context_.rank.model_block(block));
  if (found == means_.layers.end()) return std::nullopt;
  return found - means_.layers.begin();
}

bool ResidualStreams::stops_before(std::int64_t block) const {
  return observer_ != nullptr || engram_.has(block) ||
         mean_of(means_.of_inputs ? block : block - 1).has_value();
}

}  // namespace baleen
