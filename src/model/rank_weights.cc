#include "model/rank_weights.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "numeric/block_scale.h"

namespace baleen {
namespace {

/// Part `place` of `parts` of the rows.
WeightMatrix row_part(const WeightMatrix& whole, std::int64_t parts, std::int64_t place) {
  return whole.slice_rows(whole.rows / parts * place, whole.rows / parts * (place + 1));
}

}  // namespace

RankWeights::RankWeights(const ModelConfig& config, const WeightTree& whole, const RankLayout& layout,
                         std::span<const ExpertMap> maps)
    : config_(config),
      whole_(whole),
      layout_(layout),
      share_(rank_share(config, layout.plan(), layout.stage())) {
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
      const BlockWeights& from = whole.block(block);
      BlockWeights& own = tree_.blocks.emplace_back(from);
      own.attention = cut(from.attention);
      if (from.moe.has_shared)
        own.moe.shared = cut(from.moe.shared, share_.shared_tp, layout_.stage_ranks().place, copies_);
      blocks_.push_back(block);
      slots_.emplace_back();
      const auto map = maps.empty()
                           ? layout_.placed_map()
                           : std::make_shared<const ExpertMap>(maps[static_cast<std::size_t>(block)]);
      place(slots_.size() - 1, bind(from.moe.routed, map, {}));
    }
  };
  add_blocks(stage.begin, stage.end);
  if (stage.last) add_blocks(config.num_hidden_layers, config.num_blocks());
}

std::int64_t RankWeights::copied_bytes() const {
  std::set<const HeldExpert*> held;
  for (const Slots& slots : slots_) {
    for (const std::shared_ptr<const HeldExpert>& expert : slots.held) held.insert(expert.get());
  }
  std::int64_t sum = copies_.num_bytes();
  for (const HeldExpert* expert : held) sum += expert->copies.num_bytes();
  return sum;
}

std::int64_t RankWeights::Copies::num_bytes() const {
  std::int64_t sum = 0;
  for (const std::vector<std::byte>& one : bytes) sum += std::ssize(one);
  for (const std::vector<float>& one : scales) sum += std::ssize(one) * std::int64_t{sizeof(float)};
  return sum;
}

RankWeights::Slots RankWeights::bind(const std::vector<ExpertWeights>& whole,
                                     std::shared_ptr<const ExpertMap> map, const Slots& now) const {
  std::vector<std::shared_ptr<const HeldExpert>> known(whole.size());  // by logical id
  const auto logical = [&](const ExpertMap* of, std::int64_t local) {
    return static_cast<std::size_t>(layout_.experts(of).logical(local));
  };
  for (std::size_t local = 0; local < now.held.size(); ++local)
    known[logical(now.map.get(), static_cast<std::int64_t>(local))] = now.held[local];
  Slots slots{.held = {}, .weights = {}, .map = std::move(map), .table = {}};
  if (slots.map != nullptr) slots.table = slots.map->table();
  const std::int64_t num_slots = layout_.experts(slots.map.get()).experts_per_rank();
  for (std::int64_t local = 0; local < num_slots; ++local) {
    const std::size_t expert = logical(slots.map.get(), local);
    if (known[expert] == nullptr) {
      auto held = std::make_shared<HeldExpert>();
      held->weights =
          cut(whole[expert], share_.moe_tp, layout_.stage_ranks().place % share_.moe_tp, held->copies);
      known[expert] = std::move(held);
    }
    slots.held.push_back(known[expert]);
    slots.weights.push_back(known[expert]->weights);
  }
  return slots;
}

void RankWeights::stage(const BlockExperts& experts) {
  const auto found = std::ranges::find(blocks_, experts.block);
  if (found == blocks_.end()) return;
  const auto block = static_cast<std::size_t>(found - blocks_.begin());
  auto map = std::make_shared<const ExpertMap>(experts.slots, config_.n_routed_experts, layout_.plan().ep);
  if (map->slots_per_rank() != std::ssize(slots_[block].held)) {
    fail("expert map of layer {}: {} slots on each rank, where ranks have {}", experts.block,
         map->slots_per_rank(), slots_[block].held.size());
  }
  staged_.push_back({block, bind(whole_.block(experts.block).moe.routed, std::move(map), slots_[block])});
}

void RankWeights::place_staged() noexcept {
  for (StagedBlock& one : staged_) place(one.block, std::move(one.slots));
  staged_.clear();
}

void RankWeights::place(std::size_t block, Slots slots) noexcept {
  MoeWeights& moe = tree_.blocks[block].moe;
  moe.map = slots.map;
  moe.routed.swap(slots.weights);
  slots.weights.clear();
  slots_[block] = std::move(slots);
  moe.map_table = slots_[block].table;
}

std::vector<ExpertChange> RankWeights::staged() const {
  std::vector<ExpertChange> changes;
  for (const auto& [block, slots] : staged_) {
    changes.push_back({.block = block,
                       .now = tree_.blocks[block].moe.routed,
                       .next = slots.weights,
                       .map = slots.map,
                       .table = slots.table});
  }
  return changes;
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
  own.wo_b = columns(whole.wo_b, begin, end, copies_);
  return own;
}

ExpertWeights RankWeights::cut(const ExpertWeights& whole, std::int64_t parts, std::int64_t place,
                               Copies& copies) {
  if (parts == 1) return whole;
  const std::int64_t width = whole.w2.cols / parts;
  return {.w1 = row_part(whole.w1, parts, place),
          .w2 = columns(whole.w2, place * width, (place + 1) * width, copies),
          .w3 = row_part(whole.w3, parts, place)};
}

WeightMatrix RankWeights::columns(const WeightMatrix& whole, std::int64_t begin, std::int64_t end,
                                  Copies& copies) {
  BALEEN_CHECK(begin % kWeightBlock == 0 && end % kWeightBlock == 0 && end <= whole.cols);
  WeightMatrix own = whole;
  own.cols = end - begin;
  const std::int64_t first_byte =
      whole.row_bytes() / whole.cols == 0 ? begin / 2 : whole.row_bytes() / whole.cols * begin;
  std::vector<std::byte>& data = copies.bytes.emplace_back();
  data.reserve(static_cast<std::size_t>(own.rows * own.row_bytes()));
  for (std::int64_t row = 0; row < whole.rows; ++row) {
    const std::byte* from = whole.data + row * whole.row_bytes() + first_byte;
    data.insert(data.end(), from, from + own.row_bytes());
  }
  own.data = data.data();
  if (whole.block_scales != nullptr) {
    const std::int64_t per_row = whole.cols / kWeightBlock;
    std::vector<float>& scales = copies.scales.emplace_back();
    for (std::int64_t row = 0; row < (whole.rows + kWeightBlock - 1) / kWeightBlock; ++row) {
      const float* from = whole.block_scales + row * per_row;
      scales.insert(scales.end(), from + begin / kWeightBlock, from + end / kWeightBlock);
    }
    own.block_scales = scales.data();
  }
  if (whole.group_scales != nullptr) {
    std::vector<std::byte>& scales = copies.bytes.emplace_back();
    scales.reserve(static_cast<std::size_t>(own.rows * (own.cols / 32)));
    for (std::int64_t row = 0; row < whole.rows; ++row) {
      const auto* from = reinterpret_cast<const std::byte*>(whole.group_scales) + row * (whole.cols / 32);
      scales.insert(scales.end(), from + begin / 32, from + end / 32);
    }
    own.group_scales = reinterpret_cast<const std::uint8_t*>(scales.data());
  }
  return own;
}

}  // namespace baleen
