#include "model/int4_checkpoint.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "numeric/bf16.h"
#include "numeric/f16.h"
#include "numeric/weight_format.h"

namespace baleen {
namespace {

constexpr std::string_view kPacked = ".weight_packed";
constexpr std::int64_t kValuesInWord = 8, kBits = 4;
constexpr int kZero = 8;  ///< the nibble of a weight that is 0

template <class T>
T stored_value(std::span<const std::byte> bytes, std::int64_t idx) {
  T value;
  std::memcpy(&value, bytes.data() + idx * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}

/// The tensors of one matrix.
struct PackedMatrix {
  std::string_view stem;
  TensorInfo packed, scales;
  TensorInfo shape;  ///< without a name where there is none
  std::int64_t rows = 0, cols = 0;
  std::int64_t group = 0;  ///< inputs that share a scale
};

[[noreturn]] void refuse(const TensorInfo& tensor, std::string_view expected) {
  fail("tensor \"{}\" in {}: {}, expected {}", tensor.name, tensor.file, tensor.type_text(), expected);
}

void check_shape(const PackedMatrix& matrix) {
  std::array<std::int64_t, 2> said{};
  for (std::int64_t i = 0; i < 2; ++i)
    said[static_cast<std::size_t>(i)] = matrix.shape.dtype == DType::kI64
                                            ? stored_value<std::int64_t>(matrix.shape.bytes, i)
                                            : stored_value<std::int32_t>(matrix.shape.bytes, i);
  // Zeros say nothing: a file of headers alone has them.
  if (said == std::array{matrix.rows, matrix.cols} || said == std::array<std::int64_t, 2>{}) return;
  fail(
      "tensor \"{}\" in {}: [{}, {}], expected [{}, {}], which \"{}\" has at four bits a weight; is it "
      "packed otherwise, or is the file damaged?",
      matrix.shape.name, matrix.shape.file, said[0], said[1], matrix.rows, matrix.cols, matrix.packed.name);
}

PackedMatrix packed_matrix(const Checkpoint& files, const TensorInfo& packed) {
  PackedMatrix matrix{.stem = std::string_view(packed.name).substr(0, packed.name.size() - kPacked.size()),
                      .packed = packed};
  const auto part = [&](std::string_view suffix) {
    return files.find(fmt::format("{}.{}", matrix.stem, suffix));
  };
  for (const char* suffix : {"weight_zero_point", "weight_g_idx", "weight"}) {
    if (const TensorInfo* other = part(suffix))
      refuse(*other, fmt::format("none beside \"{}\": int4 is read without zero points and without an order "
                                 "of its own",
                                 packed.name));
  }
  if (packed.shape.size() != 2 || packed.bytes.empty())
    refuse(packed, "eight integers in each I32, [outputs, inputs / 8]");
  matrix.rows = packed.shape[0];
  matrix.cols = packed.shape[1] * kValuesInWord;
  const TensorInfo* scales = part("weight_scale");
  if (scales == nullptr) refuse(packed, fmt::format("\"{}.weight_scale\" beside it", matrix.stem));
  matrix.scales = *scales;
  const bool is_known =
      scales->dtype == DType::kF16 || scales->dtype == DType::kBF16 || scales->dtype == DType::kF32;
  for (const std::int64_t group : {32, 128})
    if (std::vector<std::int64_t>{matrix.rows, matrix.cols / group} == scales->shape &&
        matrix.cols % group == 0)
      matrix.group = group;
  if (!is_known || matrix.group == 0) {
    refuse(*scales, fmt::format("F16, BF16 or F32 with {} rows and a scale for 32 or for 128 of {} inputs",
                                matrix.rows, matrix.cols));
  }
  if (const TensorInfo* shape = part("weight_shape")) {
    if ((shape->dtype != DType::kI64 && shape->dtype != DType::kI32) ||
        shape->shape != std::vector<std::int64_t>{2})
      refuse(*shape, "I64 [2]");
    matrix.shape = *shape;
    check_shape(matrix);
  }
  return matrix;
}

MadeBytes::Piece codes_of(const PackedMatrix& matrix) {
  return {.size = matrix.rows * matrix.cols, .make = [matrix](std::span<std::byte> to) {
            for (std::int64_t word = 0; word < std::ssize(to) / kValuesInWord; ++word) {
              const auto nibbles = stored_value<std::uint32_t>(matrix.packed.bytes, word);
              for (std::int64_t i = 0; i < kValuesInWord; ++i) {
                const int value = static_cast<int>(nibbles >> (kBits * i) & 15U) - kZero;
                to[static_cast<std::size_t>(word * kValuesInWord + i)] = static_cast<std::byte>(value);
              }
            }
          }};
}

float scale_at(const TensorInfo& scales, std::int64_t idx) {
  if (scales.dtype == DType::kF32) return stored_value<float>(scales.bytes, idx);
  const auto bits = stored_value<std::uint16_t>(scales.bytes, idx);
  return scales.dtype == DType::kF16 ? f16_to_float(bits) : bf16_to_float(bits);
}

MadeBytes::Piece scales_of(const PackedMatrix& matrix, std::int64_t shared) {
  const std::int64_t count = matrix.rows * (matrix.cols / shared);
  return {.size = count * std::int64_t{sizeof(float)}, .make = [matrix, shared](std::span<std::byte> to) {
            for (std::int64_t i = 0; i < std::ssize(to) / std::int64_t{sizeof(float)}; ++i) {
              const float scale = scale_at(matrix.scales, i * shared / matrix.group);
              std::memcpy(to.data() + i * std::int64_t{sizeof(scale)}, &scale, sizeof(scale));
            }
          }};
}

bool is_int4(const TensorInfo& tensor) {
  return tensor.dtype == DType::kI32 && tensor.name.ends_with(kPacked);
}

/// Tensors of `files` under one list, and what is made of some.
class Presented {
 public:
  explicit Presented(const Checkpoint& files) {
    std::unordered_set<std::string> used;
    for (const TensorInfo& tensor : files.tensors()) {
      if (!is_int4(tensor)) continue;
      const PackedMatrix matrix = packed_matrix(files, tensor);
      add(matrix);
      for (const TensorInfo* part : {&matrix.packed, &matrix.scales, &matrix.shape}) used.insert(part->name);
    }
    for (const TensorInfo& tensor : files.tensors()) {
      if (!used.contains(tensor.name)) tensors_.push_back(tensor);
      stored_.push_back({is_int4(tensor) ? "int4 (packed in I32)" : std::string(dtype_name(tensor.dtype)),
                         tensor.size_bytes()});
    }
  }

  /// Once.
  Checkpoint take(std::shared_ptr<const Checkpoint> files) {
    auto made = std::make_shared<const MadeBytes>(std::move(pieces_));
    for (std::size_t i = 0; i < num_made_; ++i) tensors_[i].bytes = made->bytes(i);
    ForeignFiles foreign{.files = files->files(), .made = std::move(made), .stored = std::move(stored_)};
    const std::string label = files->folder().string();
    return {label, std::move(tensors_), std::move(files), std::move(foreign)};
  }

 private:
  void add(const PackedMatrix& matrix) {
    const std::int64_t shared = format_layout(WeightFormat::kQ8).scale_cols;
    add_made(matrix, "weight", DType::kI8, {matrix.rows, matrix.cols}, codes_of(matrix));
    add_made(matrix, "scale", DType::kF32, {matrix.rows, matrix.cols / shared}, scales_of(matrix, shared));
  }

  void add_made(const PackedMatrix& matrix, std::string_view suffix, DType dtype,
                std::vector<std::int64_t> shape, MadeBytes::Piece piece) {
    TensorInfo& tensor = tensors_.emplace_back();
    tensor.name = fmt::format("{}.{}", matrix.stem, suffix);
    tensor.dtype = dtype;
    tensor.shape = std::move(shape);
    tensor.file = matrix.packed.file;
    pieces_.push_back(std::move(piece));
    ++num_made_;
  }

  std::vector<TensorInfo> tensors_;  ///< those that are made come first
  std::size_t num_made_ = 0;
  std::vector<MadeBytes::Piece> pieces_;
  std::vector<ForeignFiles::Stored> stored_;
};

}  // namespace

Checkpoint with_int4_presented(Checkpoint files) {
  if (std::ranges::none_of(files.tensors(), is_int4)) return files;
  const auto shared = std::make_shared<const Checkpoint>(std::move(files));
  return Presented(*shared).take(shared);
}

}  // namespace baleen
