/// How a matrix lies in a checkpoint's files, by the names, dtypes and shapes of its tensors alone:
/// the formats that the forward pass has, and foreign ones by name.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/checkpoint.h"
#include "numeric/weight_format.h"

namespace baleen {

enum class MatrixFormat : std::uint8_t {
  kAbsent,  ///< no tensor of that stem
  kF32,
  kBF16,
  kQ8,     ///< int8 with one F32 scale per row and 32 inputs: GGUF's Q8_0 as it is presented
  kFp8,    ///< F8_E4M3 with scales of blocks of `MatrixKind::block`
  kMxfp4,  ///< e2m1 packed in I8, one E8M0 scale per row and 32 inputs
  kNvfp4,  ///< ModelOpt: e2m1 packed in U8, one E4M3 scale per row and 16 inputs, one of the whole tensor
  kPackedNvfp4,  ///< compressed-tensors: the same under other names
  kPackedInt4,   ///< compressed-tensors: eight integers in an I32
  kGptq,
  kAwq,
  kExl3,
  kMlx,
  kBitsAndBytes,
  kUnknown
};

/// "MXFP4", "NVFP4", "int4 of compressed-tensors", ...
[[nodiscard]] std::string_view matrix_format_name(MatrixFormat format);

struct MatrixKind {
  MatrixFormat format = MatrixFormat::kAbsent;
  std::optional<DType> scale;           ///< type of what scales the weight; none: the weight is not scaled
  std::string scale_name;               ///< "scale" in the released layout, "weight_scale" of NVFP4
  std::array<std::int64_t, 2> block{};  ///< rows and inputs that share a scale
  std::string stored_as;  ///< what files that are no safetensors call it: `Q4_K`; empty otherwise
  std::string evidence;   ///< `layers.0.attn.wq_a: weight F8_E4M3 [1024, 4096], scale ...`

  /// What the forward pass calls it; nothing where it has no such format. FP8 whose blocks are not known is
  /// kFp8.
  [[nodiscard]] std::optional<WeightFormat> weight_format() const;
  /// Of FP8: whether `block` is that of a format.
  [[nodiscard]] bool has_known_blocks() const;
  /// `MXFP4, E8M0 scales`, `FP8, F32 scales of 128 x 128`
  [[nodiscard]] std::string text() const;
};

/// Of the tensors whose names are `stem`, a dot and a suffix that some format knows.
[[nodiscard]] MatrixKind matrix_kind(const Checkpoint& checkpoint, std::string_view stem);

/// `name` without the suffix of a matrix's tensors ("weight", "scale", "weight_packed", ...); nothing for
/// the name of anything else.
[[nodiscard]] std::optional<std::string_view> matrix_stem(std::string_view name);

}  // namespace baleen
