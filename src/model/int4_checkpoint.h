/// Matrices in int4 of compressed-tensors ("pack-quantized", symmetric) in a layout that is computed with:
/// integers of eight bits with a float32 scale for every 32 inputs of a row, which have the same values.
///
///     w1.weight_packed  I32 [out, in / 8]             w1.weight  I8 [out, in], nibble i of a word less 8
///     w1.weight_scale   F16, BF16 or F32 [out, in/g]  w1.scale   F32 [out, in / 32], g is 32 or 128
///     w1.weight_shape   I64 [2]                       out and in, as they are
#pragma once

#include "checkpoint/checkpoint.h"

namespace baleen {

/// `files` with such matrices presented so, their bytes made when they are needed; the same where there are
/// none. Reads headers, and each `weight_shape`. Throws `Error` for a matrix whose tensors do not fit
/// together, naming it.
[[nodiscard]] Checkpoint with_int4_presented(Checkpoint files);

}  // namespace baleen
