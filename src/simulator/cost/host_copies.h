/// Experts on the host within a step: what is copied, and how long a step waits for it
/// (docs/experts_on_the_host.md).
///
///     few rows     router, then copies of what it chose, beside products of resident experts; then products
///                  of the copies
///     one row      copies, then all products
///     both         what is guessed for a block comes from when the copies of the block before have come;
///                  where the host's cores compute, they take a part of what was chosen (expert_wait.h)
///     many rows    all of a layer's experts on the host, while the layers before are computed; two buffers
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "hardware/device_profile.h"
#include "moe/residence/expert_placement.h"
#include "simulator/cost/expert_wait.h"
#include "simulator/graph/expert_routing.h"
#include "simulator/graph/op_graph.h"

namespace baleen {

struct OpTime;

/// Which experts of a rank lie behind its own memory. Each block has the same share of them, those that are
/// used least.
struct HostExperts {
  ExpertCounts counts;              ///< no blocks: none
  std::int64_t block_bytes = 0;     ///< size of one expert
  MemoryLevel level;                ///< the host's memory
  std::optional<MemoryLevel> disk;  ///< where the others of those away lie
  bool computes = false;            ///< the host's cores compute some of those that a step chooses

  [[nodiscard]] bool empty() const { return counts.num_away() == 0; }
  [[nodiscard]] double on_host_of_a_block() const { return of_a_block(counts.num_on_host); }
  [[nodiscard]] double on_disk_of_a_block() const { return of_a_block(counts.num_on_disk); }

 private:
  [[nodiscard]] double of_a_block(std::int64_t num_experts) const {
    return static_cast<double>(num_experts) / static_cast<double>(counts.num_blocks);
  }
};

/// Copies of one pass over the layers, in the order of its operations.
class HostCopies {
 public:
  /// Of a step in which this rank's batch has `num_rows` rows, and each data-parallel group as many, that
  /// choose experts by Zipf's law with exponent `zipf`. `guessed`: of those on the host that they choose, the
  /// share that is fetched ahead of the router. `experts` outlives this.
  HostCopies(const HostExperts& experts, std::int64_t num_chosen, double num_rows, double zipf,
             double guessed = 0);

  /// Adds to `time`, of the products of `op`'s experts, what copies add when they begin at `start` seconds.
  void add_to(OpTime& time, const GraphOp& op, double start);

  /// Bytes that come over the link for the experts of one block, where all are copied.
  [[nodiscard]] double bytes_of_a_block() const {
    return (from_host_ + from_disk_) * static_cast<double>(experts_.block_bytes);
  }

 private:
  void wait_for_background(OpTime& time, double start);
  /// Of copies by kernels that the router still waits for, on the average over steps, when guesses have been
  /// fetched for `ahead` seconds.
  [[nodiscard]] double seconds_left(double ahead) const;

  static constexpr std::int64_t kNone = -1;

  const HostExperts& experts_;
  std::int64_t counted_block_ = kNone;  ///< block of the latest router, if its experts' copies are counted
  double num_rows_, guessed_;
  bool by_kernels_;
  ExpertWait wait_;
  double from_host_ = 0, from_disk_ = 0;  ///< experts of a block
  double rows_of_expert_ = 1;             ///< rows that a chosen expert has
  double share_ = 0;                      ///< share of the products of a step that these have
  // By kernels:
  std::optional<double> come_at_;  ///< when the copies of the block before had come
  // In the background:
  std::vector<double> left_;  ///< when the blocks so far were done with their buffers
  double link_free_at_ = 0;
};

}  // namespace baleen
