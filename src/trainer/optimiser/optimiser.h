/// The update of all tensors of a model: Muon and AdamW by `parameter_group`, with their states.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "parallel/thread_pool.h"
#include "trainer/config/train_config.h"
#include "trainer/graph/parameters.h"
#include "trainer/optimiser/muon.h"
#include "trainer/optimiser/parameter_groups.h"
#include "trainer/optimiser/tensor_homes.h"

namespace baleen {

/// What an update changes; the rest keeps its values and states.
struct UpdateScope {
  bool trunk = true;  ///< everything but the indexers
  bool indexers = true;

  [[nodiscard]] bool contains(const ParameterGroup& group) const {
    return group.is_indexer ? indexers : trunk;
  }
};

class Optimiser {
 public:
  /// Of one rank: it updates the tensors whose home it is (tensor_homes.h). Their states are zeros, shaped as
  /// `weights`: 4 bytes a parameter under Muon, 8 under AdamW.
  Optimiser(const TrainConfig& config, const Parameters<float>& weights, std::int64_t rank = 0,
            std::int64_t num_ranks = 1);

  /// One update of this rank's tensors by gradients that are clipped already. Returns how many matrices of
  /// Muon were left as they are, because their gradient is zeros. The result does not depend on the threads.
  std::int64_t update(Parameters<float>& weights, const Parameters<float>& gradients, double learning_rate,
                      ThreadPool& pool, UpdateScope scope = {});

  [[nodiscard]] const std::vector<ParameterGroup>& groups() const { return groups_; }
  [[nodiscard]] const TensorHomes& homes() const { return homes_; }
  /// Of this rank.
  [[nodiscard]] const std::vector<std::size_t>& tensors() const {
    return homes_.of_rank[static_cast<std::size_t>(rank_)];
  }

  // What a checkpoint keeps.
  /// Of tensor i: Muon's momentum or AdamW's first moment; empty for biases, hash tables and tensors of other
  /// ranks.
  [[nodiscard]] std::span<float> first(std::size_t i) { return first_[i]; }
  /// AdamW's second moment; empty for all others.
  [[nodiscard]] std::span<float> second(std::size_t i) { return second_[i]; }
  [[nodiscard]] std::int64_t num_updates() const { return num_updates_; }
  void set_num_updates(std::int64_t count) { num_updates_ = count; }
  /// Room for the states of a tensor of another rank, until `drop_others`.
  void make_room(std::size_t i);
  void drop_others();

 private:
  [[nodiscard]] bool is_mine(std::size_t i) const { return homes_.of_tensor[i] == rank_; }
  /// All matrices of Muon in the scope, tensor by tensor.
  std::vector<MuonMatrix> matrices(Parameters<float>& weights, const Parameters<float>& gradients,
                                   UpdateScope scope);
  std::int64_t update_matrices(std::vector<MuonMatrix> matrices, double learning_rate, ThreadPool& pool);

  MuonConfig muon_;
  AdamWConfig adamw_;
  Operands operands_;  ///< how products of Newton-Schulz round
  std::vector<ParameterGroup> groups_;
  TensorHomes homes_;
  std::int64_t rank_;
  std::vector<std::size_t> sizes_;  ///< values of each tensor
  std::vector<std::vector<float>> first_, second_;
  std::vector<std::vector<float>> scratch_;  ///< one for each thread
  std::int64_t num_updates_ = 0;
};

}  // namespace baleen
