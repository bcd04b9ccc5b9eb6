#include "model/rank_weights.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "numeric/block_scale.h"

namespace baleen {
namespace {

/// Columns [begin, end), multiples of 128: weights and scales, copied to `data` and `scales`.
WeightMatrix columns(const WeightMatrix& whole, const RowRange& part, std::vector<std::byte>& data,
                     std::vector<std::byte>& scales, const MadeBytes* made) {
  const AcquiredBytes weights(made, {whole.data, static_cast<std::size_t>(whole.size_bytes())});
  const AcquiredBytes their_scales(made, {whole.scales(), static_cast<std::size_t>(whole.scale_bytes())});
  BALEEN_CHECK(part.begin % kWeightBlock == 0 && part.end % kWeightBlock == 0 && part.end <= whole.cols);
  const FormatLayout lies = whole.layout();
  WeightMatrix own = whole;
  own.cols = part.end - part.begin;
  const auto copy = [](std::vector<std::byte>& to, const std::byte* from, std::int64_t num_rows,
                       std::int64_t row_bytes, std::int64_t first_byte, std::int64_t num_bytes) {
    to.reserve(static_cast<std::size_t>(num_rows * num_bytes));
    for (std::int64_t row = 0; row < num_rows; ++row) {
      const std::byte* const begin = from + row * row_bytes + first_byte;
      to.insert(to.end(), begin, begin + num_bytes);
    }
  };
  copy(data, whole.data, whole.rows, whole.row_bytes(), lies.row_bytes(part.begin), own.row_bytes());
  own.data = data.data();
  if (whole.scales() == nullptr) return own;
  const auto bytes_across = [&](std::int64_t cols) { return lies.scales_across(cols) * lies.scale_bytes; };
  copy(scales, whole.scales(), lies.scales_down(whole.rows), bytes_across(whole.cols),
       bytes_across(part.begin), bytes_across(own.cols));
  own.set_scales(scales.data());
  return own;
}

}  // namespace

RankWeights::RankWeights(const ModelConfig& config, const WeightTree& whole, const RankLayout& layout,
                         std::span<const ExpertMap> maps)
    : rank_(rank_config(config, layout.plan(), layout.stage())), whole_(whole), layout_(layout) {
  tree_.table = std::make_shared<const std::vector<TensorSpec>>(rank_table(rank_));
  tree_.made = whole.made;
  if (rank_.share().embedding) tree_.embedding = whole.embedding;
  if (rank_.share().head) {
    tree_.head = whole.head;
    tree_.norm = whole.norm;
    tree_.hc_head = whole.hc_head;
    tree_.drafts = whole.drafts;
  }
  for (std::int64_t block = 0; block < rank_.num_blocks(); ++block) {
    blocks_.push_back(rank_.model_block(block));
    tree_.blocks.push_back(whole.block(blocks_.back()));
  }
  for (const TensorSpec& spec : *tree_.table)
    if (spec.expert < 0 && spec.place.exists()) cut(spec, spec.place.in(tree_, spec.block, -1), copies_);
  slots_.resize(blocks_.size());
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const auto map = maps.empty()
                         ? layout_.placed_map(rank_.model().num_routed_experts(blocks_[i]))
                         : std::make_shared<const ExpertMap>(maps[static_cast<std::size_t>(blocks_[i])]);
    place(i, bind(whole.block(blocks_[i]).moe.routed, map, {}));
  }
}

std::int64_t RankWeights::copied_bytes() const {
  std::set<const HeldExpert*> held;
  for (const Slots& slots : slots_) {
    for (const std::shared_ptr<const HeldExpert>& expert : slots.held) held.insert(expert.get());
  }
  std::int64_t sum = 0;
  const auto add = [&](const Copies& copies) {
    for (const std::vector<std::byte>& copy : copies) sum += std::ssize(copy);
  };
  add(copies_);
  for (const HeldExpert* expert : held) add(expert->copies);
  return sum;
}

RankWeights::Slots RankWeights::bind(const std::vector<ExpertWeights>& whole,
                                     std::shared_ptr<const ExpertMap> map, const Slots& now) const {
  std::vector<std::shared_ptr<const HeldExpert>> known(whole.size());  // by logical id
  const auto logical = [&](const ExpertMap* of, std::int64_t local) {
    return static_cast<std::size_t>(layout_.experts(std::ssize(whole), of).logical(local));
  };
  for (std::size_t local = 0; local < now.held.size(); ++local)
    known[logical(now.map.get(), static_cast<std::int64_t>(local))] = now.held[local];
  Slots slots{.held = {}, .weights = {}, .map = std::move(map), .table = {}};
  if (slots.map != nullptr) slots.table = slots.map->table();
  const std::int64_t num_slots = layout_.experts(std::ssize(whole), slots.map.get()).experts_per_rank();
  for (std::int64_t local = 0; local < num_slots; ++local) {
    const std::size_t expert = logical(slots.map.get(), local);
    if (known[expert] == nullptr) {
      auto held = std::make_shared<HeldExpert>();
      held->weights = cut(whole[expert], held->copies);
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
  auto map = std::make_shared<const ExpertMap>(experts.slots, rank_.model().num_routed_experts(experts.block),
                                               layout_.plan().ep);
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

void RankWeights::cut(const TensorSpec& spec, HeldTensor tensor, Copies& copies) const {
  const SplitAxis divided = split_axis(spec.split, rank_.share());
  if (divided.parts == 1) return;
  const auto part_of = [&](std::int64_t extent) {
    return even_rows(extent, divided.parts)[static_cast<std::size_t>(layout_.part_of(spec.split))];
  };
  if (auto** const matrix = std::get_if<WeightMatrix*>(&tensor)) {
    if (divided.axis == 0) {
      const RowRange rows = part_of((*matrix)->rows);
      **matrix = (*matrix)->slice_rows(rows.begin, rows.end);
    } else {
      **matrix = columns(**matrix, part_of((*matrix)->cols), copies.emplace_back(), copies.emplace_back(),
                         whole_.made.get());
    }
    return;
  }
  auto** const vector = std::get_if<std::span<const float>*>(&tensor);
  BALEEN_CHECK(vector != nullptr);
  const RowRange part = part_of(std::ssize(**vector));
  **vector = (*vector)->subspan(static_cast<std::size_t>(part.begin),
                                static_cast<std::size_t>(part.end - part.begin));
}

ExpertWeights RankWeights::cut(const ExpertWeights& whole, Copies& copies) const {
  if (rank_.share().moe_tp == 1) return whole;
  WeightTree one;  // which the table's places are in
  one.blocks.resize(1);
  one.blocks[0].moe.routed = {whole};
  for (const TensorSpec& spec : *tree_.table)
    if (spec.block == 0 && spec.expert == 0) cut(spec, spec.place.in(one, 0, 0), copies);
  return one.blocks[0].moe.routed[0];
}

}  // namespace baleen
