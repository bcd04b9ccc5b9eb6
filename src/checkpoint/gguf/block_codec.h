/// Blocks of GGUF tensors to the layouts that are computed with, exactly where those have the same values,
/// and to float32 otherwise. (source: ggml's block layouts; releases 4.1)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "checkpoint/gguf/ggml_type.h"

namespace baleen {

/// MXFP4: e2m1 codes two a byte, low nibble first, in the order of the elements. `codes` has half a byte for
/// each element of `blocks`.
void unpack_mxfp4_codes(std::span<const std::byte> blocks, std::span<std::byte> codes);
/// Its E8M0 scales, one for 32 elements.
void unpack_mxfp4_scales(std::span<const std::byte> blocks, std::span<std::byte> scales);

/// Q8_0: integers in the order of the elements.
void unpack_q8_0_codes(std::span<const std::byte> blocks, std::span<std::byte> codes);
/// Its scales, one for 32 elements, as float32.
void unpack_q8_0_scales(std::span<const std::byte> blocks, std::span<float> scales);

/// Whether `decode_blocks` has the type: all but those of integers, F64, Q8_1, Q8_K, IQ1 and TQ.
[[nodiscard]] bool has_decoder(GgmlType type);

/// Values in the order of the elements, in float32. One product each, and for types with an offset one
/// difference: the values that the format's own implementation has. `has_decoder(type)`; `blocks` are whole.
void decode_blocks(GgmlType type, std::span<const std::byte> blocks, std::span<float> values);

}  // namespace baleen
