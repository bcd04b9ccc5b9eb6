/// Kernels called as an executor calls them: with what their operation reads and writes.
#pragma once

#include "cuda/cuda_context.h"

namespace baleen::test {

/// `kernel(args, context)`, whose accesses the context's order of launches learns, if it keeps one.
template <class Op>
void run_declared(void (*kernel)(const typename Op::Args&, CudaContext&), const typename Op::Args& args,
                  CudaContext& context) {
  if (LaunchOrder* const order = context.stream.order; order != nullptr)
    Op::accesses(args, order->begin_operation());
  kernel(args, context);
}

}  // namespace baleen::test
