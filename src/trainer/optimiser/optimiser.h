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
  /// States of zeros for tensors shaped as `weights`: 4 bytes a parameter under Muon, 8 under AdamW.
  Optimiser(const TrainConfig& config, const Parameters<float>& weights);

  /// One update by gradients that are clipped already. Returns how many matrices of Muon were left as they
  /// are, because their gradient is zeros. The result does not depend on the threads.
  std::int64_t update(Parameters<float>& weights, const Parameters<float>& gradients, double learning_rate,
                      ThreadPool& pool, UpdateScope scope = {});

  [[nodiscard]] const std::vector<ParameterGroup>& groups() const { return groups_; }

  // What a checkpoint keeps.
  /// Of tensor i: Muon's momentum or AdamW's first moment; empty for biases and hash tables.
  [[nodiscard]] std::span<float> first(std::size_t i) { return first_[i]; }
  /// AdamW's second moment; empty for all others.
  [[nodiscard]] std::span<float> second(std::size_t i) { return second_[i]; }
  [[nodiscard]] std::int64_t num_updates() const { return num_updates_; }
  void set_num_updates(std::int64_t count) { num_updates_ = count; }

 private:
  /// All matrices of Muon in the scope, tensor by tensor.
  std::vector<MuonMatrix> matrices(Parameters<float>& weights, const Parameters<float>& gradients,
                                   UpdateScope scope);
  std::int64_t update_matrices(std::vector<MuonMatrix> matrices, double learning_rate, ThreadPool& pool);

  MuonConfig muon_;
  AdamWConfig adamw_;
  std::vector<ParameterGroup> groups_;
  std::vector<std::vector<float>> first_, second_;
  std::vector<std::vector<float>> scratch_;  ///< of each thread
  std::int64_t num_updates_ = 0;
};

}  // namespace baleen
