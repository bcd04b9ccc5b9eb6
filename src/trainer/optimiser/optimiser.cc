#include "trainer/optimiser/optimiser.h"

#include <algorithm>
#include <atomic>
#include <functional>

#include "trainer/optimiser/adamw.h"

namespace baleen {
namespace {

/// Threads share the products of a matrix whose shorter edge is at least this; smaller ones are one thread's
/// each, which then waits for no other.
constexpr std::int64_t kSharedShortEdge = 1024;

}  // namespace

Optimiser::Optimiser(const TrainConfig& config, const Parameters<float>& weights, std::int64_t rank,
                     std::int64_t num_ranks)
    : muon_(config.muon),
      adamw_(config.adamw),
      operands_(config.bf16_products() ? Operands::kBf16 : Operands::kAsStored),
      rank_(rank),
      first_(weights.size()),
      second_(weights.size()) {
  for (std::size_t i = 0; i < weights.size(); ++i) {
    groups_.push_back(parameter_group(weights.spec(i), config));
    sizes_.push_back(weights.values(i).size());
  }
  homes_ = tensor_homes(weights.table(), groups_, num_ranks);
  for (const std::size_t i : tensors()) make_room(i);
}

void Optimiser::make_room(std::size_t i) {
  first_[i].resize(sizes_[i]);
  if (groups_[i].rule == UpdateRule::kAdamW) second_[i].resize(sizes_[i]);
}

void Optimiser::drop_others() {
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    if (is_mine(i)) continue;
    first_[i] = {};
    second_[i] = {};
  }
}

std::vector<MuonMatrix> Optimiser::matrices(Parameters<float>& weights, const Parameters<float>& gradients,
                                            UpdateScope scope) {
  std::vector<MuonMatrix> matrices;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!is_mine(i) || groups_[i].rule != UpdateRule::kMuon || !scope.contains(groups_[i])) continue;
    const std::int64_t columns = weights.spec(i).shape[1];
    std::size_t begin = 0;
    for (const std::int64_t rows : groups_[i].matrix_rows) {
      const auto size = static_cast<std::size_t>(rows * columns);
      matrices.push_back({.rows = rows,
                          .columns = columns,
                          .gradient = gradients.values(i).subspan(begin, size),
                          .momentum = first(i).subspan(begin, size),
                          .weights = weights.values(i).subspan(begin, size),
                          .operands = operands_});
      begin += size;
    }
  }
  return matrices;
}

std::int64_t Optimiser::update_matrices(std::vector<MuonMatrix> matrices, double learning_rate,
                                        ThreadPool& pool) {
  const auto shorter_edge = [](const MuonMatrix& matrix) { return std::min(matrix.rows, matrix.columns); };
  // The largest first: the threads that share the rest end at about the same time.
  std::ranges::stable_sort(matrices, std::ranges::greater{}, shorter_edge);
  const auto first_small = std::ranges::find_if(
      matrices, [&](const MuonMatrix& matrix) { return shorter_edge(matrix) < kSharedShortEdge; });
  std::atomic<std::int64_t> num_left{0};
  scratch_.resize(static_cast<std::size_t>(pool.num_threads()));
  for (auto matrix = matrices.begin(); matrix != first_small; ++matrix) {
    if (!muon_step(muon_, learning_rate, *matrix, scratch_[0], pool)) ++num_left;
  }
  pool.parallel_for(matrices.end() - first_small, [&](std::int64_t i, int thread) {
    ThreadPool alone(1);
    auto& scratch = scratch_[static_cast<std::size_t>(thread)];
    if (!muon_step(muon_, learning_rate, first_small[i], scratch, alone)) ++num_left;
  });
  return num_left;
}

std::int64_t Optimiser::update(Parameters<float>& weights, const Parameters<float>& gradients,
                               double learning_rate, ThreadPool& pool, UpdateScope scope) {
  ++num_updates_;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!is_mine(i) || groups_[i].rule != UpdateRule::kAdamW || !scope.contains(groups_[i])) continue;
    adamw_step(adamw_, groups_[i].weight_decay, learning_rate, num_updates_, gradients.values(i),
               {first(i), second(i)}, weights.values(i), pool);
  }
  return update_matrices(matrices(weights, gradients, scope), learning_rate, pool);
}

}  // namespace baleen
