#include "model/rank_weights.h"

#include <algorithm>

#include "base/check.h"
#include "numeric/block_scale.h"

namespace baleen {
namespace {

/// Part `place` of `parts` of the rows.
WeightMatrix row_part(const WeightMatrix& whole, std::int64_t parts, std::int64_t place) {
  return whole.slice_rows(whole.rows / parts * place, whole.rows / parts * (place + 1));
}

}  // namespace

RankWeights::RankWeights(const ModelConfig& config, const WeightTree& whole, const RankLayout& layout)
    : config_(config), layout_(layout), share_(rank_share(config, layout.plan(), layout.stage())) {
  const Stage& stage = layout.stage();
  if (share_.embedding) tree_.embedding = whole.embedding;
  if (share_.head) {
    const RankGroup& group = layout.vocabulary();
    const RowRange rows = even_rows(config.vocab_size, group.size())[static_cast<std::size_t>(group.place)];
    tree_.head = whole.head.slice_rows(rows.begin, rows.end);
    tree_.norm = whole.norm;
    tree_.hc_head = whole.hc_head;
    tree_.mtp = whole.mtp;
  }
  const auto add_blocks = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      BlockWeights own = whole.block(block);
      own.attention = cut(own.attention);
      own.moe = cut(own.moe);
      tree_.blocks.push_back(std::move(own));
    }
  };
  add_blocks(stage.begin, stage.end);
  if (stage.last) add_blocks(config.num_hidden_layers, config.num_blocks());
}

std::int64_t RankWeights::copied_bytes() const {
  std::int64_t sum = 0;
  for (const std::vector<std::byte>& bytes : bytes_) sum += std::ssize(bytes);
  for (const std::vector<float>& scales : scales_) sum += std::ssize(scales) * std::int64_t{sizeof(float)};
  return sum;
}

AttentionWeights RankWeights::cut(const AttentionWeights& whole) {
  AttentionWeights own = whole;
  const std::int64_t num_heads = config_.num_attention_heads / share_.tp;
  own.sink = whole.sink.subspan(static_cast<std::size_t>(layout_.tp_index() * num_heads),
                                static_cast<std::size_t>(num_heads));
  own.wq_b = row_part(whole.wq_b, share_.tp, layout_.tp_index());
  if (share_.o_proj_tp == 1) return own;
  const std::int64_t begin = layout_.first_output_group() * config_.o_lora_rank;
  const std::int64_t end = begin + layout_.output_groups() * config_.o_lora_rank;
  own.wo_a = whole.wo_a.slice_rows(begin, end);
  own.wo_b = columns(whole.wo_b, begin, end);
  return own;
}

MoeWeights RankWeights::cut(const MoeWeights& whole) {
  MoeWeights own = whole;
  if (whole.has_shared) own.shared = cut(whole.shared, share_.shared_tp, layout_.tp_index());
  own.routed.clear();
  const ExpertRanks placement = layout_.experts();
  for (std::int64_t local = 0; local < placement.experts_per_rank(); ++local) {
    const std::int64_t expert = placement.logical(local);
    own.routed.push_back(cut(whole.routed[static_cast<std::size_t>(expert)], share_.moe_tp,
                             layout_.stage_ranks().place % share_.moe_tp));
  }
  return own;
}

ExpertWeights RankWeights::cut(const ExpertWeights& whole, std::int64_t parts, std::int64_t place) {
  if (parts == 1) return whole;
  const std::int64_t width = whole.w2.cols / parts;
  return {.w1 = row_part(whole.w1, parts, place),
          .w2 = columns(whole.w2, place * width, (place + 1) * width),
          .w3 = row_part(whole.w3, parts, place)};
}

WeightMatrix RankWeights::columns(const WeightMatrix& whole, std::int64_t begin, std::int64_t end) {
  BALEEN_CHECK(begin % kWeightBlock == 0 && end % kWeightBlock == 0 && end <= whole.cols);
  WeightMatrix own = whole;
  own.cols = end - begin;
  const std::int64_t first_byte =
      whole.row_bytes() / whole.cols == 0 ? begin / 2 : whole.row_bytes() / whole.cols * begin;
  std::vector<std::byte>& data = bytes_.emplace_back();
  for (std::int64_t row = 0; row < whole.rows; ++row) {
    const std::byte* from = whole.data + row * whole.row_bytes() + first_byte;
    data.insert(data.end(), from, from + own.row_bytes());
  }
  own.data = data.data();
  if (whole.block_scales != nullptr) {
    const std::int64_t per_row = whole.cols / kWeightBlock;
    std::vector<float>& scales = scales_.emplace_back();
    for (std::int64_t row = 0; row < (whole.rows + kWeightBlock - 1) / kWeightBlock; ++row) {
      const float* from = whole.block_scales + row * per_row;
      scales.insert(scales.end(), from + begin / kWeightBlock, from + end / kWeightBlock);
    }
    own.block_scales = scales.data();
  }
  if (whole.group_scales != nullptr) {
    std::vector<std::byte>& scales = bytes_.emplace_back();
    for (std::int64_t row = 0; row < whole.rows; ++row) {
      const auto* from = reinterpret_cast<const std::byte*>(whole.group_scales) + row * (whole.cols / 32);
      scales.insert(scales.end(), from + begin / 32, from + end / 32);
    }
    own.group_scales = reinterpret_cast<const std::uint8_t*>(scales.data());
  }
  return own;
}

}  // namespace baleen
