#include "cuda/chosen_tokens.h"

#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"

namespace baleen {
namespace {

constexpr int kThreads = 128;

__global__ void __launch_bounds__(kThreads)
    take_kernel(const TokenId* chosen, std::int64_t count, TokenId* tokens, NextAtOnce order) {
  order.launch_next();
  ptx::wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < count && is_chosen_token(tokens[i])) tokens[i] = max(chosen[chosen_index(tokens[i])], 0);
}

}  // namespace

void take_chosen_tokens(const TokenId* chosen, std::int64_t count, TokenId* tokens,
                        const LaunchStream& stream) {
  launch_kernel("taking chosen tokens", take_kernel,
                {.grid = dim3(static_cast<unsigned>((count + kThreads - 1) / kThreads)), .threads = kThreads},
                stream, chosen, count, tokens);
}

}  // namespace baleen
