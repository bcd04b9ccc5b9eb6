/// A thread pool, scratch memory and the context that names them, for one test of an operation.
#pragma once

#include <gtest/gtest.h>

#include <string_view>

#include "ops/matmul/int8_copies.h"
#include "ops/operation/variant.h"

namespace baleen::test {

/// Runs the variant of this name, where an operation has it, and the best otherwise; empty: always the best.
using Kernels = std::string_view;
inline constexpr Kernels kBest = "";
inline constexpr Kernels kReference = kReferenceVariant;
inline constexpr Kernels kInt8 = kInt8Variant;

struct TestCpu {
  explicit TestCpu(int num_threads = 1, std::int64_t scratch_bytes = 0, Kernels kernels = kBest)
      : wanted(kernels),
        pool(num_threads),
        scratch(scratch_bytes),
        context{.pool = pool, .scratch = scratch, .int8_copies = &int8_copies} {}

  template <class Op>
  void run(const typename Op::Args& args) {
    const auto variants = Op::cpu_variants();
    if constexpr (requires { Op::check(args); }) Op::check(args);
    const DeviceTraits traits{.num_units = pool.num_threads()};
    const CpuVariant<Op>* chosen = nullptr;
    for (const CpuVariant<Op>& variant : variants) {
      if (variant.name == wanted) chosen = &variant;
    }
    for (const CpuVariant<Op>& variant : variants) {
      const bool takes = variant.why_not == nullptr || !variant.why_not(args, traits);
      if (chosen == nullptr && takes) chosen = &variant;
    }
    ASSERT_NE(chosen, nullptr) << Op::kName;
    chosen->run(args, context);
  }

  Kernels wanted;
  ThreadPool pool;
  Arena scratch;
  Int8Copies int8_copies;
  CpuContext context;
};

}  // namespace baleen::test
