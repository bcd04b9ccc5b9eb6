#include "model/device_weights.h"

#include "base/check.h"
#include "base/error.h"
#include "base/progress.h"
#include "numeric/bf16.h"
#include "numeric/e8m0.h"

namespace baleen {
namespace {

/// Calls `visit(data, size_bytes)` as `visit_arrays` does for every array of `tree`, in the table's order.
template <class Visit>
void walk(WeightTree& tree, Visit visit) {
  if (tree.table == nullptr) return;
  for (const TensorSpec& spec : *tree.table) {
    if (!spec.place.exists()) continue;
    if (spec.expert < 0) {
      visit_arrays(spec.place.in(tree, spec.block, -1), visit);
      continue;
    }
    // The weights of all experts, then their scales, then the scales of whole matrices.
    const std::int64_t count = std::ssize(tree.block(spec.block).moe.routed);
    for (const int wanted : {0, 1, 2}) {
      for (std::int64_t expert = 0; expert < count; ++expert) {
        int array = 0;
        visit_arrays(spec.place.in(tree, spec.block, expert), [&](auto& data, std::int64_t size_bytes) {
          if (array++ == wanted) visit(data, size_bytes);
        });
      }
    }
  }
  for (BlockWeights& block : tree.blocks) {
    std::span<const std::int32_t>& map = block.moe.map_table;
    if (map.empty()) continue;
    const auto* data = reinterpret_cast<const std::byte*>(map.data());
    visit(data, static_cast<std::int64_t>(map.size_bytes()));
    map = {reinterpret_cast<const std::int32_t*>(data), map.size()};
  }
}

WeightTree with_experts_of(const BlockRange& blocks, WeightTree tree) {
  for (std::int64_t block = 0; block < std::ssize(tree.blocks); ++block) {
    if (!blocks.has(block)) tree.blocks[static_cast<std::size_t>(block)].moe.routed.clear();
  }
  return tree;
}

/// Of the one FP8 matrix whose inputs are not quantised.
void check_bf16_scales(const WeightTree& tree) {
  constexpr float kMaxScale = 0x1p8F;
  for (std::size_t block = 0; block < tree.blocks.size(); ++block) {
    const WeightMatrix& m = tree.blocks[block].attention.wo_a;
    if (!is_fp8(m.format)) continue;
    for (std::int64_t i = 0; i < m.num_scales(); ++i) {
      const float scale =
          m.format == WeightFormat::kFp8 ? m.block_scales[i] : e8m0_to_float(m.group_scales[i]);
      if (scale < kMaxScale && round_bf16(scale) == scale) continue;
      fail(
          "block {}: scale {} of wo_a is {}, where GPUs need a power of two, or another BF16 number below "
          "{}; ‹device› cpu takes any",
          block, i, scale, kMaxScale);
    }
  }
}

}  // namespace

std::int64_t device_weight_bytes(const WeightTree& tree, const BlockRange& with_experts) {
  WeightTree copy = with_experts_of(with_experts, tree);
  std::int64_t bytes = 0;
  walk(copy,
       [&](const std::byte*& /*data*/, std::int64_t size) { bytes += Arena::bytes_for<std::byte>(size); });
  return bytes;
}

std::int64_t device_weight_bytes(const RankConfig& rank, const StorageFormats& formats,
                                 const BlockRange& with_experts) {
  std::int64_t bytes = 0;
  for (const TensorSpec& spec : rank_table(rank)) {
    if (!spec.place.exists() || (spec.expert >= 0 && !with_experts.has(spec.block))) continue;
    for (const HeldArray& array : held_arrays(spec, formats))
      bytes += spec.count * Arena::bytes_for<std::byte>(array.size_bytes());
  }
  return bytes;
}

void make_all(const WeightTree& tree, ThreadPool& pool) {
  if (tree.made == nullptr) return;
  std::vector<std::span<const std::byte>> arrays;
  WeightTree copy = tree;
  walk(copy, [&](const std::byte*& data, std::int64_t size) {
    arrays.emplace_back(data, static_cast<std::size_t>(size));
  });
  constexpr std::int64_t kMegabyte = 1'000'000, kArraysAtATime = 512;
  Progress progress("reading weights", "MB", tree.made->size_bytes() / kMegabyte);
  for (std::int64_t begin = 0; begin < std::ssize(arrays); begin += kArraysAtATime) {
    const std::int64_t count = std::min(kArraysAtATime, std::ssize(arrays) - begin);
    pool.parallel_for(count, [&](std::int64_t i, int /*thread*/) {
      tree.made->acquire(arrays[static_cast<std::size_t>(begin + i)]);
    });
    progress.update(tree.made->made_bytes() / kMegabyte);
  }
}

DeviceWeights::DeviceWeights(const WeightTree& host, Memory& memory, const BlockRange& with_experts)
    : tree_(with_experts_of(with_experts, host)), arena_(device_weight_bytes(tree_), memory) {
  check_bf16_scales(tree_);
  constexpr std::int64_t kMegabyte = 1'000'000;
  Progress progress("loading weights", "MB", arena_.size_bytes() / kMegabyte);
  walk(tree_, [&](const std::byte*& data, std::int64_t size) {
    auto* copy = arena_.allocate<std::byte>(size);
    const std::span bytes(data, static_cast<std::size_t>(size));
    const AcquiredBytes acquired(tree_.made.get(), bytes);
    memory.upload(copy, bytes);
    data = copy;
    progress.update(arena_.mark() / kMegabyte);
  });
  BALEEN_CHECK_EQ(arena_.peak_bytes(), arena_.size_bytes());
}

}  // namespace baleen
