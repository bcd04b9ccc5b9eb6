/// What all operations share: where they run and what they cost.
#pragma once

#include <array>
#include <cstdint>

#include "comm/communicator.h"
#include "parallel/thread_pool.h"
#include "tensor/buffer.h"

namespace baleen {

class Int8Copies;

/// Where operations run on the CPU. Scratch taken by an operation is given back when it returns; its size is
/// what the operation's `*_scratch_bytes` says for the largest arguments of a run.
struct CpuContext {
  ThreadPool& pool;
  Arena& scratch;
  Communicator* communicator = nullptr;  ///< to other ranks; null: there are none
  /// Copies of weights, for variants named `int8`; null: those must not run.
  Int8Copies* int8_copies = nullptr;
};

/// Where operations run on a CUDA device: cuda/cuda_context.h.
struct CudaContext;

/// Gives back, at the end of a scope, whatever was taken from an arena since its beginning.
class ScratchScope {
 public:
  explicit ScratchScope(Arena& arena) : arena_(arena), mark_(arena.mark()) {}
  ScratchScope(const ScratchScope&) = delete;
  ScratchScope& operator=(const ScratchScope&) = delete;
  ~ScratchScope() { arena_.release(mark_); }

 private:
  Arena& arena_;
  std::int64_t mark_;
};

/// Number format of the operands of a matrix product; the rate of a device differs between them. A format
/// stands for both operands: FP8 activations times FP4 weights run at the rate of FP8, and count so.
enum class MathFormat : std::uint8_t {
  kF32,
  kBF16,
  kFp8,  ///< both FP8, or FP8 activations and FP4 weights
  kFp4,  ///< both FP4: the indexer's
  kCount
};

/// What an operation does, from its arguments alone: what an ideal kernel computes and moves. The engine
/// counts with these figures what it executes, the simulator what it would.
///
/// Every argument is moved once, as the element type says; weights as checkpoints store them (one byte a
/// scale, BF16 norms), cache rows in their format. What a kernel reads again or pads belongs to its
/// efficiency.
///
/// The backward of an operation (training specification 11) reads what the forward read and the gradients
/// of its results, writes the gradients of its inputs in the inputs' types, and adds to those of its
/// weights in float32, each once. What is cheaper to compute again than to keep is computed again:
/// attention's probabilities, Sinkhorn's divisors, sigmoids.
struct OpCost {
  /// Of matrix products; a multiply-add is two.
  std::array<double, static_cast<std::size_t>(MathFormat::kCount)> flops{};
  /// All other arithmetic: an addition, product, division, comparison, exponential, logarithm, root, rounding
  /// is one.
  double scalar_ops = 0;
  double read_bytes = 0;
  double write_bytes = 0;
  double weight_bytes = 0;  ///< weights among read_bytes; not rows that are looked up by token
  double cache_bytes = 0;   ///< rows of the key-value cache among read_bytes

  [[nodiscard]] double matrix_flops() const {
    double sum = 0;
    for (const double part : flops) sum += part;
    return sum;
  }
  /// All arithmetic, whatever its rate.
  [[nodiscard]] double total_flops() const { return matrix_flops() + scalar_ops; }
  [[nodiscard]] double total_bytes() const { return read_bytes + write_bytes; }
  void add_flops(MathFormat format, double count) { flops[static_cast<std::size_t>(format)] += count; }
  void read_weights(double bytes) {
    read_bytes += bytes;
    weight_bytes += bytes;
  }
  void read_cache(double bytes) {
    read_bytes += bytes;
    cache_bytes += bytes;
  }
  /// Gradients of `count` parameters are added to those of earlier micro-batches, in float32.
  void accumulate_gradients(double count) {
    constexpr double kGradientBytes = 4;
    read_bytes += kGradientBytes * count;
    write_bytes += kGradientBytes * count;
  }
  OpCost& operator+=(const OpCost& other) {
    for (std::size_t i = 0; i < flops.size(); ++i) flops[i] += other.flops[i];
    scalar_ops += other.scalar_ops;
    read_bytes += other.read_bytes;
    write_bytes += other.write_bytes;
    weight_bytes += other.weight_bytes;
    cache_bytes += other.cache_bytes;
    return *this;
  }
};

[[nodiscard]] inline OpCost operator+(OpCost first, const OpCost& second) { return first += second; }

}  // namespace baleen
