#include "moe/residence/staged_experts.h"

#include <algorithm>

#include "base/check.h"

namespace baleen {
namespace {

std::int64_t staging_bytes(const WeightMatrix& m) {
  return Arena::bytes_for<std::byte>(m.size_bytes()) + Arena::bytes_for<std::byte>(m.scale_bytes()) +
         Arena::bytes_for<std::byte>(m.matrix_scale_bytes());
}

/// Of a device's array, which the tree only reads.
template <class T>
std::byte* writable(const T* data) {
  return const_cast<std::byte*>(reinterpret_cast<const std::byte*>(data));
}

template <class T>
const std::byte* bytes_at(const T* data) {
  return reinterpret_cast<const std::byte*>(data);
}

}  // namespace

std::int64_t StagedExperts::bytes_for(const WeightTree& tree) {
  std::int64_t most = 0;
  for (const BlockWeights& block : tree.blocks) {
    const MoeWeights& moe = block.moe;
    std::int64_t bytes =
        Arena::bytes_for<std::byte>(std::ssize(moe.map_table) * std::int64_t{sizeof(std::int32_t)});
    for (const ExpertWeights& expert : moe.routed)
      bytes += staging_bytes(expert.w1) + staging_bytes(expert.w2) + staging_bytes(expert.w3);
    most = std::max(most, bytes);
  }
  return most;
}

StagedExperts::StagedExperts(WeightTree& tree, Memory& memory, BackgroundCopies& copies)
    : tree_(tree), memory_(memory), copies_(copies), staging_(bytes_for(tree), memory) {}

void StagedExperts::stage_array(std::byte* to, const std::byte* from, std::int64_t size_bytes) {
  if (size_bytes == 0) return;
  auto* const staged = staging_.allocate<std::byte>(size_bytes);
  copies_.start(staged, from, size_bytes);
  copies_to_make_.push_back({to, staged, size_bytes});
}

void StagedExperts::stage_matrix(const WeightMatrix& to, const WeightMatrix& from) {
  BALEEN_CHECK(to.format == from.format && to.rows == from.rows && to.cols == from.cols);
  stage_array(writable(to.data), from.data, to.size_bytes());
  stage_array(writable(to.scales()), from.scales(), to.scale_bytes());
  stage_array(writable(to.matrix_scale), bytes_at(from.matrix_scale), to.matrix_scale_bytes());
}

void StagedExperts::stage(const ExpertChange& change) {
  BALEEN_CHECK(copies_to_make_.empty());
  const MoeWeights& moe = tree_.blocks[change.block].moe;
  BALEEN_CHECK(change.now.size() == moe.routed.size() && change.next.size() == moe.routed.size());
  BALEEN_CHECK_EQ(change.table.size(), moe.map_table.size());
  block_ = change.block;
  map_ = change.map;
  staging_.reset();
  copies_.wait_for_operations();  // an earlier change may still be read from staging
  for (std::size_t slot = 0; slot < moe.routed.size(); ++slot) {
    if (change.now[slot].w1.data == change.next[slot].w1.data) continue;
    for (WeightMatrix ExpertWeights::*part : {&ExpertWeights::w1, &ExpertWeights::w2, &ExpertWeights::w3})
      stage_matrix(moe.routed[slot].*part, change.next[slot].*part);
  }
  stage_array(writable(moe.map_table.data()), bytes_at(change.table.data()),
              static_cast<std::int64_t>(change.table.size_bytes()));
  copies_.set_mark(0);
}

void StagedExperts::place() {
  if (copies_to_make_.empty()) return;
  copies_.make_operations_wait_for(0);
  for (const auto& [to, from, size_bytes] : copies_to_make_) memory_.copy(to, from, size_bytes);
  tree_.blocks[block_].moe.map = std::move(map_);
  copies_to_make_.clear();
}

}  // namespace baleen
