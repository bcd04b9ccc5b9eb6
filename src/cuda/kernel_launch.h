/// Launching a kernel that may start while its predecessor still runs.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <tuple>
#include <utility>

#include "cuda/cuda_error.h"
#include "cuda/launch_stream.h"

namespace baleen {

struct LaunchShape {
  dim3 grid;
  int threads = 0;                ///< threads that a block has
  std::int64_t shared_bytes = 0;  ///< dynamic
  int cluster = 1;                ///< blocks of a cluster, along x
  bool early = true;              ///< begins while its predecessor runs; not behind the join of a branch
};

/// Lets `kernel` have all the shared memory that there is beside its static, on the current GPU. Always as
/// much, because what is allowed is the GPU's and threads of several ranks may launch there.
void allow_most_shared_memory(const void* kernel, const char* name);

namespace launch_details {

/// What a kernel of these parameters says of its order: `KernelOrder`, if that is the last of them.
template <class... Params>
struct OrderOf {
  static constexpr bool kIsSaid = false;
};
template <class First, class... Rest>
struct OrderOf<First, Rest...> {
  using Last = std::tuple_element_t<sizeof...(Rest), std::tuple<First, Rest...>>;
  static constexpr bool kIsSaid = requires { Last::kNextKernel; };
};

}  // namespace launch_details

/// Queues `kernel`. If its last parameter is a `KernelOrder` (ptx/grid_dependency.h), which is not among
/// `args`, and where `shape.early` and the stream starts kernels early, as a programmatic dependent of
/// whatever is before it on `stream`: it begins with what does not depend on that and calls
/// `wait_for_previous_kernel` before all else. `name` is for the error.
template <class... Params, class... Args>
void launch_kernel(const char* name, void (*kernel)(Params...), const LaunchShape& shape,
                   const LaunchStream& stream, Args&&... args) {
  using Order = launch_details::OrderOf<Params...>;
  constexpr std::int64_t kWithoutAsking = 48 << 10;
  if (shape.shared_bytes > kWithoutAsking)
    allow_most_shared_memory(reinterpret_cast<const void*>(kernel), name);
  const bool early = Order::kIsSaid && shape.early && stream.starts_early;
  cudaLaunchAttribute attributes[2];  // GPUs before sm_90 know neither
  unsigned num_attributes = 0;
  if (early) {
    cudaLaunchAttribute& attribute = attributes[num_attributes++];
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
  }
  if (shape.cluster > 1) {
    cudaLaunchAttribute& attribute = attributes[num_attributes++];
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {static_cast<unsigned>(shape.cluster), 1, 1};
  }
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = static_cast<std::size_t>(shape.shared_bytes);
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = num_attributes;
  NextKernel next = NextKernel::kBehindWait;
  if constexpr (Order::kIsSaid) {
    next = Order::Last::kNextKernel;
    check_cuda(cudaLaunchKernelEx(&config, kernel, std::forward<Args>(args)..., typename Order::Last()),
               name);
  } else {
    check_cuda(cudaLaunchKernelEx(&config, kernel, std::forward<Args>(args)...), name);
  }
  if (stream.order != nullptr) stream.order->add_launch(stream, early, next);
}

}  // namespace baleen
