#include "model/matrix_kind.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "numeric/block_scale.h"

namespace baleen {
namespace {

/// Behind the dot that ends a stem, most telling first: a matrix has some of these and no others.
constexpr std::array<std::string_view, 21> kSuffixes{"weight",
                                                     "scale",
                                                     "weight_scale",
                                                     "weight_scale_2",
                                                     "weight_scale_inv",
                                                     "input_scale",
                                                     "weight_packed",
                                                     "weight_shape",
                                                     "weight_zero_point",
                                                     "weight_global_scale",
                                                     "input_global_scale",
                                                     "qweight",
                                                     "qzeros",
                                                     "scales",
                                                     "biases",
                                                     "g_idx",
                                                     "trellis",
                                                     "suh",
                                                     "svh",
                                                     "weight.absmax",
                                                     "weight.quant_map"};

using Parts = std::map<std::string_view, const TensorInfo*>;

Parts parts_of(const Checkpoint& checkpoint, std::string_view stem) {
  Parts parts;
  std::string name;
  for (const std::string_view suffix : kSuffixes) {
    name.assign(stem).append(".").append(suffix);
    if (const TensorInfo* tensor = checkpoint.find(name)) parts.emplace(suffix, tensor);
  }
  return parts;
}

std::string evidence_of(const Parts& parts, std::string_view stem) {
  std::string text = fmt::format("{}:", stem);
  std::string_view between = " ";
  for (const std::string_view suffix : kSuffixes) {
    const auto part = parts.find(suffix);
    if (part == parts.end()) continue;
    text += fmt::format("{}{} {}", between, suffix, part->second->type_text());
    between = ", ";
  }
  return text;
}

const TensorInfo* part(const Parts& parts, std::string_view suffix) {
  const auto found = parts.find(suffix);
  return found == parts.end() ? nullptr : found->second;
}

bool has_dtype(const TensorInfo* tensor, DType dtype) { return tensor != nullptr && tensor->dtype == dtype; }

std::array<std::int64_t, 2> blocks_of(WeightFormat format) {
  const FormatLayout lies = format_layout(format);
  return {lies.scale_rows, lies.scale_cols};
}

/// Elements that share a scale where `count` elements have `scales`: of several sizes the usual one.
std::int64_t block_size(std::int64_t count, std::int64_t scales) {
  for (const std::int64_t size : {std::int64_t{kWeightBlock}, std::int64_t{kIndexerGroup}, std::int64_t{64},
                                  std::int64_t{16}, std::int64_t{256}, std::int64_t{1}}) {
    if ((count + size - 1) / size == scales) return size;
  }
  return 0;
}

MatrixFormat packed_format(const Parts& parts) {
  const TensorInfo* weight = part(parts, "weight");
  if (part(parts, "trellis") != nullptr) return MatrixFormat::kExl3;
  if (const TensorInfo* quantised = part(parts, "qweight")) {
    // AWQ packs along the outputs, GPTQ along the inputs.
    const TensorInfo* scales = part(parts, "scales");
    const bool by_outputs = scales != nullptr && scales->shape.size() == 2 && quantised->shape.size() == 2 &&
                            quantised->shape[1] != scales->shape[1];
    return by_outputs ? MatrixFormat::kAwq : MatrixFormat::kGptq;
  }
  if (const TensorInfo* packed = part(parts, "weight_packed")) {
    if (packed->dtype == DType::kU8 && part(parts, "weight_global_scale") != nullptr)
      return MatrixFormat::kPackedNvfp4;
    return packed->dtype == DType::kI32 ? MatrixFormat::kPackedInt4 : MatrixFormat::kUnknown;
  }
  if (part(parts, "weight.absmax") != nullptr) return MatrixFormat::kBitsAndBytes;
  if (has_dtype(weight, DType::kU8) && has_dtype(part(parts, "weight_scale"), DType::kF8E4M3))
    return MatrixFormat::kNvfp4;
  if (has_dtype(weight, DType::kU32) && part(parts, "scales") != nullptr) return MatrixFormat::kMlx;
  return MatrixFormat::kUnknown;
}

/// Of a weight that is not packed by another project's scheme.
void describe_weight(const Parts& parts, const TensorInfo& weight, MatrixKind& kind) {
  if (weight.shape.size() != 2) return;
  for (const std::string_view name : {"scale", "weight_scale", "weight_scale_inv"}) {
    const TensorInfo* scale = part(parts, name);
    if (scale == nullptr || kind.scale) continue;
    kind.scale = scale->dtype;
    kind.scale_name = name;
    const std::int64_t inputs = weight.dtype == DType::kI8 ? 2 * weight.shape[1] : weight.shape[1];
    if (scale->shape.size() != 2) continue;
    kind.block = {block_size(weight.shape[0], scale->shape[0]), block_size(inputs, scale->shape[1])};
    // Few rows may have as many scales in blocks of several sizes: FP8's are squares.
    const std::int64_t size = kind.block[1];
    if (weight.dtype == DType::kF8E4M3 && size > 0 && (weight.shape[0] + size - 1) / size == scale->shape[0])
      kind.block[0] = size;
  }
  // A scale that is missing is missed by its name (tensor_table.h).
  if (weight.dtype == DType::kF8E4M3) kind.format = MatrixFormat::kFp8;
  if (weight.dtype == DType::kI8 && kind.scale.value_or(DType::kF8E8M0) == DType::kF8E8M0)
    kind.format = MatrixFormat::kMxfp4;
  const std::vector<std::int64_t> q8_scales{weight.shape[0], weight.shape[1] / kIndexerGroup};
  if (weight.dtype == DType::kI8 && kind.scale == DType::kF32 && kind.scale_name == "scale" &&
      part(parts, "scale")->shape == q8_scales) {
    kind.format = MatrixFormat::kQ8;
    kind.block = {1, kIndexerGroup};
  }
  if (weight.dtype == DType::kBF16 && !kind.scale) kind.format = MatrixFormat::kBF16;
  if (weight.dtype == DType::kF32 && !kind.scale) kind.format = MatrixFormat::kF32;
}

}  // namespace

std::string_view matrix_format_name(MatrixFormat format) {
  switch (format) {
    case MatrixFormat::kAbsent:
      return "absent";
    case MatrixFormat::kF32:
      return "F32";
    case MatrixFormat::kBF16:
      return "BF16";
    case MatrixFormat::kQ8:
      return "Q8_0";
    case MatrixFormat::kFp8:
      return "FP8";
    case MatrixFormat::kMxfp4:
      return "MXFP4";
    case MatrixFormat::kNvfp4:
      return "NVFP4";
    case MatrixFormat::kPackedNvfp4:
      return "NVFP4 of compressed-tensors";
    case MatrixFormat::kPackedInt4:
      return "int4 of compressed-tensors";
    case MatrixFormat::kGptq:
      return "GPTQ";
    case MatrixFormat::kAwq:
      return "AWQ";
    case MatrixFormat::kExl3:
      return "EXL3";
    case MatrixFormat::kMlx:
      return "MLX";
    case MatrixFormat::kBitsAndBytes:
      return "bitsandbytes";
    case MatrixFormat::kUnknown:
      break;
  }
  return "a format that is not known here";
}

std::optional<WeightFormat> MatrixKind::weight_format() const {
  if (format == MatrixFormat::kF32) return WeightFormat::kF32;
  if (format == MatrixFormat::kBF16) return WeightFormat::kBF16;
  if (format == MatrixFormat::kMxfp4) return WeightFormat::kFp4;
  if (format == MatrixFormat::kNvfp4) return WeightFormat::kNvfp4;
  if (format == MatrixFormat::kFp8) {
    return block == blocks_of(WeightFormat::kFp8x32) ? WeightFormat::kFp8x32 : WeightFormat::kFp8;
  }
  // int4 is presented as kQ8 (int4_checkpoint.h).
  if (format == MatrixFormat::kQ8 || format == MatrixFormat::kPackedInt4) return WeightFormat::kQ8;
  return std::nullopt;
}

bool MatrixKind::has_known_blocks() const {
  return block == blocks_of(WeightFormat::kFp8) || block == blocks_of(WeightFormat::kFp8x32);
}

std::string MatrixKind::text() const {
  if (!stored_as.empty()) return stored_as;
  std::string text(matrix_format_name(format));
  if (!weight_format() || !scale) return text;
  std::string_view name = dtype_name(*scale);
  if (name.starts_with("F8_")) name.remove_prefix(3);  // E8M0, as everybody says
  text += fmt::format(", {} scales", name);
  if (format == MatrixFormat::kFp8) text += fmt::format(" of {} x {}", block[0], block[1]);
  if (format == MatrixFormat::kPackedInt4) text += fmt::format(" of {} inputs", block[1]);
  return text;
}

MatrixKind matrix_kind(const Checkpoint& checkpoint, std::string_view stem) {
  MatrixKind kind;
  const Parts parts = parts_of(checkpoint, stem);
  if (parts.empty()) return kind;
  kind.evidence = evidence_of(parts, stem);
  kind.format = packed_format(parts);
  const TensorInfo* weight = part(parts, "weight");
  if (kind.format == MatrixFormat::kNvfp4) {
    kind.scale = DType::kF8E4M3;
    kind.scale_name = "weight_scale";
    kind.block = {1, format_layout(WeightFormat::kNvfp4).scale_cols};
  }
  const TensorInfo* scales = part(parts, "weight_scale");
  if (kind.format == MatrixFormat::kPackedInt4 && scales != nullptr && scales->shape.size() == 2) {
    const auto& packed = part(parts, "weight_packed")->shape;
    kind.scale = scales->dtype;
    kind.scale_name = "weight_scale";
    kind.block = {1, packed.size() == 2 && scales->shape[1] > 0 ? packed[1] * 8 / scales->shape[1] : 0};
  }
  if (kind.format == MatrixFormat::kUnknown && weight != nullptr) describe_weight(parts, *weight, kind);
  return kind;
}

std::optional<std::string_view> matrix_stem(std::string_view name) {
  for (const std::string_view suffix : kSuffixes) {
    if (name.size() <= suffix.size() + 1 || !name.ends_with(suffix)) continue;
    const std::string_view stem = name.substr(0, name.size() - suffix.size() - 1);
    if (name[stem.size()] == '.') return stem;
  }
  return std::nullopt;
}

}  // namespace baleen
