#include "drafts/mtp/mtp_pass.h"

#include <algorithm>

#include "base/check.h"
#include "ops/operations.h"

namespace baleen {

MtpPass::MtpPass(const RankConfig& rank, const WeightTree& weights, Device& device, Precision precision)
    : rank_(rank), weights_(weights), device_(device), precision_(precision) {}

DraftRun MtpPass::over(ConstActivations<3> streams) const {
  const std::int64_t block = rank_.num_layers();
  return {.begin = block,
          .end = std::min(block + 1, rank_.num_blocks()),
          .enter = [this, streams](const DraftRows& rows) { enter(rows, streams); }};
}

/// Y[s] = bf(e_proj(enorm(e)) + h_proj(hnorm(X[s]))): the embedding's term is the same for all streams.
void MtpPass::enter(const DraftRows& rows, ConstActivations<3> streams) const {
  BALEEN_CHECK(streams.extent(0) >= rows.kept.end && streams.dense());
  const std::int64_t num_rows = rows.kept.size(), width = rank_.model().hidden_size;
  const float eps = static_cast<float>(rank_.model().rms_norm_eps);
  const Activations<2> embedded = rows.values[0], embedded_term = rows.values[1];
  device_.execute<ops::Embed>({.tokens = rows.tokens,
                               .first_row = rows.kept.begin,
                               .table = weights_.embedding,
                               .out = embedded.reshaped<3>({num_rows, 1, width})});
  device_.execute<ops::RmsNorm>({.x = embedded,
                                 .weight = weights().vectors.at("enorm"),
                                 .eps = eps,
                                 .precision = precision_,
                                 .y = embedded});
  const LinearOutput e_output{&weights().matrices.at("e_proj"), embedded_term, false, "e_proj"};
  device_.execute<ops::Linear>({.x = embedded, .outputs = {&e_output, 1}, .precision = precision_});

  const std::int64_t stream_rows = num_rows * rank_.model().hc_mult;
  const auto flat = [&](const auto& x) { return x.template reshaped<2>({stream_rows, width}); };
  const Activations<2> normed = flat(rows.stream_values);
  device_.execute<ops::RmsNorm>({.x = flat(streams.slice(rows.kept.begin, rows.kept.end)),
                                 .weight = weights().vectors.at("hnorm"),
                                 .eps = eps,
                                 .precision = precision_,
                                 .y = normed});
  const LinearOutput h_output{&weights().matrices.at("h_proj"), flat(rows.streams), false, "h_proj"};
  device_.execute<ops::Linear>({.x = normed, .outputs = {&h_output, 1}, .precision = precision_});
  device_.execute<ops::MtpCombine>(
      {.embedded = embedded_term, .precision = precision_, .streams = rows.streams});
}

void MtpPass::logits(Forward& forward, ConstActivations<3> streams, Activations<2> out) const {
  forward.logits(streams, weights().mixings.at("hc_head"), weights().vectors.at("norm"), out);
}

}  // namespace baleen
