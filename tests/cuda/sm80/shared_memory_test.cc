// A block gets no more shared memory than the card has whose traits are imposed on the GPU.
#include "shared_memory.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "cuda/shared_memory_limit.h"
#include "tests/support/test_cuda.h"

namespace baleen {
namespace {

TEST(SharedMemoryLimit, ALaunchThatWantsMoreFails) {
  BALEEN_NEEDS_GPU();
  test::TestCuda cuda(1 << 20);
  const std::int64_t most = test::architecture_traits().shared_bytes_per_block;
  EXPECT_EQ(shared_memory_limit(0), most);
  test::launch_with_shared_memory(most, cuda.context().stream);
  EXPECT_THROW(test::launch_with_shared_memory(most + 1024, cuda.context().stream), Error);
  test::launch_with_shared_memory(64 << 10, cuda.context().stream);
  cuda.synchronise();
}

}  // namespace
}  // namespace baleen
