#include "model/weight_binding.h"

#include <memory>
#include <utility>

namespace baleen {
namespace {

/// With room for every tensor of the table.
template <class Tree>
Tree empty_tree(const RankConfig& rank) {
  Tree tree;
  tree.blocks.resize(static_cast<std::size_t>(rank.num_blocks()));
  tree.drafts.resize(static_cast<std::size_t>(rank.num_draft_blocks()));
  for (std::size_t block = 0; block < tree.blocks.size(); ++block)
    tree.blocks[block].moe.routed.resize(
        static_cast<std::size_t>(rank.num_experts_of(static_cast<std::int64_t>(block))));
  return tree;
}

void set(WeightMatrix& matrix, const TensorSpec& spec, const StorageFormats& formats,
         std::span<const std::byte* const> arrays, int activation_group) {
  matrix = {.format = spec.is_matrix()                ? formats.of(spec)
                      : spec.storage == Storage::kF32 ? WeightFormat::kF32
                                                      : WeightFormat::kBF16,
            .rows = spec.shape[0],
            .cols = spec.shape[1],
            .data = arrays[0],
            .activation_group = activation_group};
  if (arrays.size() > 1) matrix.set_scales(arrays[1]);
  if (arrays.size() > 2) matrix.set_matrix_scale(arrays[2]);
}

void set(std::span<const float>& vector, const TensorSpec& spec, const StorageFormats& /*formats*/,
         std::span<const std::byte* const> arrays, int /*activation_group*/) {
  vector = {reinterpret_cast<const float*>(arrays[0]), static_cast<std::size_t>(spec.num_elements())};
}

template <class T>
void set(View<const T, 2>& view, const TensorSpec& spec, const StorageFormats& /*formats*/,
         std::span<const std::byte* const> arrays, int /*activation_group*/) {
  view = {reinterpret_cast<const T*>(arrays[0]), {spec.shape[0], spec.shape[1]}};
}

}  // namespace

WeightTree bind_weights(const RankConfig& rank, const std::vector<TensorSpec>& table,
                        const StorageFormats& formats, const ArraySource& source) {
  auto tree = empty_tree<WeightTree>(rank);
  tree.table = std::make_shared<const std::vector<TensorSpec>>(rank_table(rank));
  for (BlockWeights& block : tree.blocks) block.moe.has_shared = rank.model().n_shared_experts > 0;
  const int activation_group = rank.model().activation_group();
  std::vector<const std::byte*> arrays;
  for (const TensorSpec& spec : table) {
    if (!spec.place.exists()) continue;
    arrays.clear();
    for (const HeldArray& array : held_arrays(spec, formats)) arrays.push_back(source(array));
    for (std::int64_t i = 0; i < spec.count; ++i) {
      std::visit([&](auto* tensor) { set(*tensor, spec, formats, arrays, activation_group); },
                 spec.place.in(tree, spec.block, spec.expert + i));
    }
  }
  return tree;
}

RowTree bind_rows(const RankConfig& rank, const std::vector<TensorSpec>& table) {
  auto tree = empty_tree<RowTree>(rank);
  for (std::size_t row = 0; row < table.size(); ++row) {
    const TensorSpec& spec = table[row];
    if (!spec.place.exists()) continue;
    for (std::int64_t i = 0; i < spec.count; ++i)
      spec.place.in(tree, spec.block, spec.expert + i) = {static_cast<std::int32_t>(row)};
  }
  return tree;
}

}  // namespace baleen
