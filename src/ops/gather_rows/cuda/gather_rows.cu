// The pairs travel as a kernel's parameters, a few hundred a launch: no copy from the host, nothing to keep
// alive.

#include <algorithm>

#include "base/check.h"
#include "cuda/cuda_context.h"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "ops/gather_rows/cuda/gather_rows.h"

namespace baleen::BALEEN_ARCH {
namespace {

constexpr int kPairsPerLaunch = 256;  // 2 KB of the 4 KB that parameters may be
constexpr int kThreads = 256;
constexpr int kUnitsPerThread = 4;

struct RowPairs {
  RowPair pairs[kPairsPerLaunch];
};

/// Block (x, y) copies part y of the row of pair x. `Unit` is what a thread moves at a time.
template <class Unit>
__global__ void __launch_bounds__(kThreads)
    gather_rows_kernel(const Unit* from, Unit* to, std::int64_t units_per_row,
                       const __grid_constant__ RowPairs rows, NextAtOnce order) {
  order.launch_next();
  ptx::wait_for_previous_kernel();
  const RowPair pair = rows.pairs[blockIdx.x];
  const Unit* source = from + pair.from * units_per_row;
  Unit* target = to + pair.to * units_per_row;
  const std::int64_t first = std::int64_t{blockIdx.y} * kThreads * kUnitsPerThread + threadIdx.x;
  Unit units[kUnitsPerThread];
#pragma unroll
  for (int i = 0; i < kUnitsPerThread; ++i) {
    if (first + i * kThreads < units_per_row) units[i] = source[first + i * kThreads];
  }
#pragma unroll
  for (int i = 0; i < kUnitsPerThread; ++i) {
    if (first + i * kThreads < units_per_row) target[first + i * kThreads] = units[i];
  }
}

template <class Unit>
void launch_in_pieces(const GatherRowsArgs& args, std::int64_t row_bytes, CudaContext& context) {
  const std::int64_t units_per_row = row_bytes / std::int64_t{sizeof(Unit)};
  const auto parts =
      static_cast<unsigned>((units_per_row + kThreads * kUnitsPerThread - 1) / (kThreads * kUnitsPerThread));
  for (std::size_t first = 0; first < args.pairs.size(); first += kPairsPerLaunch) {
    const auto piece =
        args.pairs.subspan(first, std::min<std::size_t>(kPairsPerLaunch, args.pairs.size() - first));
    RowPairs rows{};
    std::ranges::copy(piece, rows.pairs);
    launch_kernel("gather_rows", gather_rows_kernel<Unit>,
                  {.grid = dim3(static_cast<unsigned>(piece.size()), parts), .threads = kThreads},
                  context.stream, reinterpret_cast<const Unit*>(args.from.address()),
                  reinterpret_cast<Unit*>(args.to.address()), units_per_row, rows);
  }
}

}  // namespace

void gather_rows(const GatherRowsArgs& args, CudaContext& context) {
  BALEEN_CHECK(args.from.dense() && args.to.dense());
  BALEEN_CHECK(args.from.element_type() == args.to.element_type());
  BALEEN_CHECK_EQ(args.from.extent(1), args.to.extent(1));
  for (const RowPair& pair : args.pairs) {
    BALEEN_CHECK(pair.from >= 0 && pair.from < args.from.extent(0));
    BALEEN_CHECK(pair.to >= 0 && pair.to < args.to.extent(0));
  }
  const std::int64_t row_bytes = args.from.extent(1) * size_of(args.from.element_type());
  if (row_bytes == 0) return;
  const auto aligned = [](const void* address) {
    return reinterpret_cast<std::uintptr_t>(address) % sizeof(uint4) == 0;
  };
  if (row_bytes % std::int64_t{sizeof(uint4)} == 0 && aligned(args.from.address()) &&
      aligned(args.to.address())) {
    launch_in_pieces<uint4>(args, row_bytes, context);
  } else {
    launch_in_pieces<Bf16Bits>(args, row_bytes, context);
  }
}

}  // namespace baleen::BALEEN_ARCH
