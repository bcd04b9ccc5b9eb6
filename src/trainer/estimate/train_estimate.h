/// A step of training: forward, backward, exchange of gradients, optimiser; and the memory it takes. (source:
/// simulation 9)
///
/// Backward is the sum of the operations' own backward costs; recomputation repeats forward in part. A
/// pipeline of pp stages and m micro-batches stands still for (pp - 1) / m of its work. Dense gradients are
/// reduced over all ranks that hold the same weights, each of which keeps a share of master weights and
/// states (ZeRO) and updates it; experts are where they are.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "simulator/cost/step_estimate.h"

namespace baleen {

struct TrainingLoad {
  std::int64_t sequence_length = 4096;
  std::int64_t global_batch_tokens = 75'497'472;  ///< tokens that a step has; the report's for Flash
  std::int64_t micro_batch_sequences = 1;         ///< sequences that a data-parallel group has at a time
  double recomputation = 1;                       ///< share of forward that backward repeats, in [0, 1]
  bool bf16_gradients = false;                    ///< exchanged and kept; otherwise float32
  double imbalance = 1;
};

struct TrainEstimate {
  double forward_seconds = 0;
  double backward_seconds = 0;
  double recompute_seconds = 0;
  double bubble_seconds = 0;
  double gradient_seconds = 0;   ///< reduction of dense gradients, and weights gathered again
  double optimiser_seconds = 0;  ///< Muon's products and AdamW's passes over memory
  double seconds = 0;
  double tokens_per_second = 0;
  double muon_flops = 0;   ///< what all devices compute
  double model_flops = 0;  ///< products of forward and backward, of all devices
  std::int64_t num_micro_batches = 0;
  std::vector<std::pair<std::string, std::int64_t>> memory;  ///< what the fullest device holds, part by part
  std::int64_t memory_bytes = 0;
  std::int64_t device_memory_bytes = 0;

  /// Parts of `seconds` by name, in their order.
  [[nodiscard]] std::vector<std::pair<std::string, double>> parts() const;
  [[nodiscard]] bool fits() const { return memory_bytes <= device_memory_bytes; }
  /// Share of the devices' peak that the model's products are.
  [[nodiscard]] double model_flops_utilisation(const DeviceProfile& device, std::int64_t num_devices) const;
};

/// Throws `Error` for a load that means nothing: sequences longer than the model's, a batch below one
/// sequence a group.
[[nodiscard]] TrainEstimate estimate_training(const SimulatedModel& model, const ParallelPlan& plan,
                                              const TrainingLoad& load, const DeviceProfile& device);

[[nodiscard]] std::string training_table(const SimulatedModel& model, const ParallelPlan& plan,
                                         const TrainingLoad& load, const DeviceProfile& device,
                                         const TrainEstimate& estimate);
[[nodiscard]] std::string training_json(const TrainEstimate& estimate);

}  // namespace baleen
