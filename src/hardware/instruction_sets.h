/// Which instruction set the SIMD kernels use.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace baleen {

/// Names of those that were compiled in and that this machine has, best first: "AVX3_AMX" (AVX-512 with AMX's
/// tiles of BF16), "AVX3_BF16" (AVX-512 with BF16 dot products), "AVX3", "AVX2", "SSE4", "NEON".
[[nodiscard]] std::vector<std::string> available_instruction_sets();

/// Makes kernels use `name` and nothing wider, from now on; "best" takes the limit away and leaves
/// BF16 dot products aside where they are slower (Intel). Throws `Error` for a
/// name that is not available. Call before any kernel runs: results differ in the last bits between
/// instruction sets.
void limit_instruction_set(std::string_view name);

/// The one in use.
[[nodiscard]] std::string instruction_set_in_use();

}  // namespace baleen
