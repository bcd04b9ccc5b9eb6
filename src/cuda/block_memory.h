/// How much shared memory a block can have, for kernels that cut their work by it.
#pragma once

#include <cstdint>

namespace baleen {

/// Bytes, static ones included, on the current GPU: what it has, or less where that is imposed
/// (shared_memory_limit.h). `name`, of a kernel, is for the error.
[[nodiscard]] std::int64_t most_shared_bytes(const char* name);

}  // namespace baleen
