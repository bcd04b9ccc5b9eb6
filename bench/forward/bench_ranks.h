/// Ranks of a benchmark: a thread and a GPU of this host each, the weights made up.
#pragma once

#include <barrier>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "bench/support/cuda_bench.h"
#include "comm/local_communicator.h"
#include "comm/peer/peer_memory.h"
#include "device/cuda/cuda_device.h"
#include "forward/forward.h"
#include "kv_cache/sequence_pages.h"
#include "model/device_weights.h"
#include "model/rank_weights.h"

namespace baleen::bench {

/// What they share.
struct BenchService {
  const ModelConfig& config;
  const WeightTree& weights;
  ParallelPlan plan;
  const PeerMemory* peers;  ///< null: one rank, or messages by NCCL
  LocalExchange& exchange;
  std::barrier<>& ready;
};

/// The first layers of a preset (0: all), without MTP blocks.
[[nodiscard]] ModelConfig layers_of(std::string_view preset, std::int64_t num_layers);
/// Throws `Error` where there are fewer.
[[nodiscard]] int count_gpus(int least = 1);

/// Makes weights up and calls `run_rank(service, index)` for every rank of a plan, resolved for `config`, in
/// a thread each. Where one throws, the program ends with its sentence. What a rank owns others may read:
/// `run_rank` waits for them before it returns.
void run_ranks(const ModelConfig& config, const ParallelPlan& plan, bool by_nccl,
               std::chrono::seconds longest_wait,
               const std::function<void(const BenchService&, std::int64_t index)>& run_rank);

/// The exit status of a benchmark's `main`: `run`, or the sentence of what it throws.
[[nodiscard]] int status_of(const std::function<void()>& run);

/// The middle of `times` (us), and what lies between their quarters.
[[nodiscard]] Timing timing_of(std::vector<double> times);

/// One rank's device, weights, cache, and sequences that all have the same length.
class BenchRank {
 public:
  /// `options.max_rows`, `max_sequences` and `max_pages` are also what cache and forward pass have room for.
  BenchRank(const BenchService& service, const RankLayout& layout, const DeviceOptions& options);

  [[nodiscard]] const ModelConfig& config() const { return config_.model(); }
  [[nodiscard]] CudaDevice& device() { return device_; }
  [[nodiscard]] Forward& forward() { return *forward_; }

  /// Another forward pass, its buffers new.
  void renew_forward();
  /// `count` sequences of no tokens. Which tokens they get depends on their numbers: `first`, `first` +
  /// `every`, and so on.
  void open(std::int64_t count, std::int64_t first = 0, std::int64_t every = 1);
  void close() { pages_.clear(); }
  /// Queues the next `count` positions of each sequence and the logits of the last.
  void step(std::int64_t count);
  /// Those of the last step.
  [[nodiscard]] std::vector<float> logits();

 private:
  RankLayout layout_;
  RankConfig config_;
  std::int64_t max_rows_;
  RankWeights share_;
  CudaDevice device_;
  DeviceWeights weights_;
  KvCache cache_;
  Buffer logits_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<Forward> forward_;
  std::vector<SequencePages> pages_;
  std::int64_t first_ = 0, every_ = 1, length_ = 0;
};

}  // namespace baleen::bench
