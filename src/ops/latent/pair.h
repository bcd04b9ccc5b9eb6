/// The two tokens that a latent of ratio 2 is made of.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "ops/latent/latent.h"

namespace baleen {

/// Pointers to c values each: of the token before the one that completes the latent, and of that one. The
/// first may stand before this step, in the ring.
struct Pair {
  std::array<const float*, 2> kv;
  std::array<const float*, 2> gate;

  Pair(const LatentArgs& args, const SequenceSlice& slice, std::int64_t row)
      : kv{nullptr, args.kv.row(row).data()}, gate{nullptr, args.gate.row(row).data()} {
    if (row > slice.first_row) {
      kv[0] = args.kv.row(row - 1).data();
      gate[0] = args.gate.row(row - 1).data();
    } else {
      kv[0] = args.state.kv_row(slice.state_slot, slice.start - 1);
      gate[0] = args.state.gate_row(slice.state_slot, slice.start - 1);
    }
  }
};

/// The last rows of a sequence go to its ring, when all its latents have been made.
inline void keep_pairs(const LatentArgs& args, const SequenceSlice& slice) {
  if (args.ratio == 1) return;
  const std::int64_t end = slice.start + slice.num_tokens;
  for (std::int64_t position = std::max(slice.start, end - args.state.ring_rows); position < end;
       ++position) {
    const std::int64_t row = slice.first_row + position - slice.start;
    std::ranges::copy(args.kv.row(row), args.state.kv_row(slice.state_slot, position));
    std::ranges::copy(args.gate.row(row), args.state.gate_row(slice.state_slot, position));
  }
}

}  // namespace baleen
