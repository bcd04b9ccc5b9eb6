/// What all operations share: where they run, which of their variants is wanted, and what they cost.
#pragma once

#include <array>
#include <cstdint>

#include "parallel/thread_pool.h"
#include "tensor/buffer.h"

namespace baleen {

/// Which implementation of an operation runs.
enum class Kernels : std::uint8_t {
  kBest,      ///< SIMD, for the best instruction set of this machine
  kReference  ///< plain loops: the specification
};

/// Where operations run on the CPU. Scratch taken by an operation is given back when it returns; its size is
/// what the operation's `*_scratch_bytes` says for the largest arguments of a run.
struct CpuContext {
  ThreadPool& pool;
  Arena& scratch;
  Kernels kernels = Kernels::kBest;
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

/// Number format of the weights (or keys) in a product; the rate of a device differs between them.
enum class MathFormat : std::uint8_t { kF32, kBF16, kFp8, kFp4, kCount };

/// What an operation does, from its arguments alone. A multiply-add is two FLOPs.
struct OpCost {
  std::array<double, static_cast<std::size_t>(MathFormat::kCount)> flops{};
  double read_bytes = 0;
  double write_bytes = 0;

  [[nodiscard]] double total_flops() const {
    double sum = 0;
    for (const double part : flops) sum += part;
    return sum;
  }
  [[nodiscard]] double total_bytes() const { return read_bytes + write_bytes; }
  void add_flops(MathFormat format, double count) { flops[static_cast<std::size_t>(format)] += count; }
  OpCost& operator+=(const OpCost& other) {
    for (std::size_t i = 0; i < flops.size(); ++i) flops[i] += other.flops[i];
    read_bytes += other.read_bytes;
    write_bytes += other.write_bytes;
    return *this;
  }
};

}  // namespace baleen
