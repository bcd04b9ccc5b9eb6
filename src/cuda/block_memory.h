/// How much shared memory a block can have, for kernels that cut their work by it, and a multiprocessor.
#pragma once

#include <cstdint>

namespace baleen {

/// Bytes, static ones included, on the current GPU: what it has, or less where that is imposed
/// (shared_memory_limit.h). `name`, of a kernel, is for the error.
[[nodiscard]] std::int64_t most_shared_bytes(const char* name);

/// While `kernel` runs on a multiprocessor of the current GPU, all of its first-level memory that can be is
/// shared memory. Otherwise there is about what the kernel's own blocks take, and a block of the next kernel
/// that would fit beside them begins only when they have ended.
void prefer_shared_memory(const void* kernel, const char* name);

}  // namespace baleen
