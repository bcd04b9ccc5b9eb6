/// Random numbers that are a pure function of a seed and an index: nothing is stored between draws, so the
/// n-th draw of a sequence is the same whatever ran beside it. (source: Salmon et al., "Parallel Random
/// Numbers: As Easy as 1, 2, 3", SC 2011; Philox4x32 with 10 rounds)
#pragma once

#include <array>
#include <cstdint>

namespace baleen {

/// One block of 128 random bits.
[[nodiscard]] std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                                      std::array<std::uint32_t, 2> key);

/// Uniform in [0, 1), a multiple of 2^-53.
[[nodiscard]] double uniform_draw(std::uint64_t seed, std::uint64_t draw_idx);

}  // namespace baleen
