#include "forward/rotation_angles.h"

#include <vector>

#include "ops/operations.h"
#include "ops/rope/rope_frequencies.h"

namespace baleen {

RotationArrays::RotationArrays(const RankConfig& rank, ActivationArrays& arrays) {
  const std::int64_t width = rank.model().qk_rope_head_dim / 2;
  for (std::size_t kind = 0; kind < kNumRopeKinds; ++kind) {
    cosine[kind] = arrays.floats(width);
    sine[kind] = arrays.floats(width);
    frequencies[kind] = arrays.take<float>(width);
  }
}

RotationArrays RotationArrays::from_row(std::int64_t first) const {
  RotationArrays rest = *this;
  for (std::size_t kind = 0; kind < kNumRopeKinds; ++kind) {
    rest.cosine[kind] = rows_from(cosine[kind], first);
    rest.sine[kind] = rows_from(sine[kind], first);
  }
  return rest;
}

RotationAngles::RotationAngles(const PassContext& context, ActivationArrays& arrays)
    : context_(context), arrays_(RotationArrays(context.rank, arrays)) {
  const ModelConfig& config = context.config;
  const RopeScaling& scaling = config.rope_scaling;
  const YarnParams yarn{static_cast<float>(scaling.factor), scaling.original_max_position_embeddings,
                        static_cast<float>(scaling.beta_fast), static_cast<float>(scaling.beta_slow)};
  const auto rotary_dim = static_cast<int>(config.qk_rope_head_dim);
  const auto upload = [&](RopeKind kind, double base, const YarnParams* scaled) {
    const std::vector<float> values = rope_frequencies(static_cast<float>(base), rotary_dim, scaled);
    context.device.memory().upload(reinterpret_cast<std::byte*>(arrays_.whole().frequencies[index_of(kind)]),
                                   std::as_bytes(std::span(values)));
  };
  upload(RopeKind::kPlain, config.rope_theta, nullptr);
  upload(RopeKind::kScaled, config.compress_rope_theta,
         scaling.original_max_position_embeddings > 0 ? &yarn : nullptr);
}

std::span<const float> RotationAngles::frequencies(RopeKind kind) const {
  return {arrays_.whole().frequencies[index_of(kind)],
          static_cast<std::size_t>(context_.config.qk_rope_head_dim / 2)};
}

void RotationAngles::prepare(const Pass& pass) {
  const RowRange all{0, pass.num_rows()};
  for (const RopeKind kind : {RopeKind::kPlain, RopeKind::kScaled}) {
    context_.device.execute<ops::RopeAngles>({.frequencies = frequencies(kind),
                                              .batch = pass.step.batch,
                                              .cosine = cosine(kind, pass, all),
                                              .sine = sine(kind, pass, all)});
  }
}

}  // namespace baleen
