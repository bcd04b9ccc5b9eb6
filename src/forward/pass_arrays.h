/// How the arrays of a pass are laid out: those of every rank's activations in an arena, those that only
/// exchanges need in buffers of their own. The same constructors allocate and count, so that a plan is what
/// will be taken, to the byte.
#pragma once

#include <array>
#include <cstdint>
#include <deque>

#include "tensor/activations.h"
#include "tensor/buffer.h"
#include "tensor/fp8_rows.h"
#include "tensor/view.h"

namespace baleen {

/// Arrays for R rows, the largest step's. Those that hold BF16 values have the device's type for them
/// (`values`); the others are float32 everywhere (`floats`).
class ActivationArrays {
 public:
  /// Allocates from `arena`, which must have room and outlive the arrays; null: only counts.
  ActivationArrays(std::int64_t max_rows, ElementType type, Arena* arena)
      : rows_(max_rows), type_(type), arena_(arena) {}

  [[nodiscard]] Activations<2> values(std::int64_t width) { return take_rows<2>(type_, {rows_, width}); }
  [[nodiscard]] Activations<3> values(std::int64_t count, std::int64_t width) {
    return take_rows<3>(type_, {rows_, count, width});
  }
  [[nodiscard]] Activations<2> floats(std::int64_t width) {
    return take_rows<2>(ElementType::kF32, {rows_, width});
  }
  [[nodiscard]] Activations<3> floats(std::int64_t count, std::int64_t width) {
    return take_rows<3>(ElementType::kF32, {rows_, count, width});
  }
  [[nodiscard]] View<std::int32_t, 2> integers(std::int64_t width) {
    return {take<std::int32_t>(rows_ * width), {rows_, width}};
  }
  /// None on devices without BF16 activations, nor of groups other than 128: what makes rows for products
  /// does not write those, and products quantise rows themselves.
  [[nodiscard]] Fp8Rows fp8(std::int64_t width, int group);
  /// `count` of anything, whatever the number of rows.
  template <class T>
  [[nodiscard]] T* take(std::int64_t count) {
    bytes_ += Arena::bytes_for<T>(count);
    return arena_ == nullptr ? nullptr : arena_->allocate<T>(count);
  }

  /// Of all arrays so far.
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

 private:
  template <int Rank>
  Activations<Rank> take_rows(ElementType type, const std::array<std::int64_t, Rank>& extents) {
    std::int64_t count = 1;
    for (const std::int64_t extent : extents) count *= extent;
    return {take<std::byte>(count * size_of(type)), type, extents};
  }

  std::int64_t rows_;
  ElementType type_;
  Arena* arena_;
  std::int64_t bytes_ = 0;
};

/// Arrays that exchanges need, for steps of up to `max_rows` rows. They live as long as this does.
class MessageArrays {
 public:
  /// `type`: of activations on the device. `memory` outlives this.
  MessageArrays(std::int64_t max_rows, ElementType type, Memory& memory)
      : max_rows_(max_rows), type_(type), memory_(memory) {}

  [[nodiscard]] std::int64_t max_rows() const { return max_rows_; }
  [[nodiscard]] ElementType type() const { return type_; }
  [[nodiscard]] Activations<2> values(std::int64_t num_rows, std::int64_t width) {
    return take_rows(num_rows, width, type_);
  }
  [[nodiscard]] Activations<2> floats(std::int64_t num_rows, std::int64_t width) {
    return take_rows(num_rows, width, ElementType::kF32);
  }
  [[nodiscard]] View<std::int32_t, 2> integers(std::int64_t num_rows, std::int64_t width) {
    return {take<std::int32_t>(num_rows * width), {num_rows, width}};
  }
  [[nodiscard]] Fp8Rows fp8(std::int64_t num_rows, std::int64_t width);

  /// Of all arrays so far.
  [[nodiscard]] std::int64_t bytes() const;

 private:
  template <class T>
  T* take(std::int64_t count) {
    return reinterpret_cast<T*>(
        buffers_.emplace_back(count * static_cast<std::int64_t>(sizeof(T)), memory_).data());
  }
  Activations<2> take_rows(std::int64_t num_rows, std::int64_t width, ElementType type) {
    return {take<std::byte>(num_rows * width * size_of(type)), type, {num_rows, width}};
  }

  std::int64_t max_rows_;
  ElementType type_;
  Memory& memory_;
  std::deque<Buffer> buffers_;
};

/// The first `count` rows of an array for more, as a dense one of `width` columns.
template <class T>
[[nodiscard]] View<T, 2> rows(const View<T, 2>& array, std::int64_t count) {
  return {array.data(), {count, array.extent(1)}};
}
template <class T>
[[nodiscard]] View<T, 2> rows(const View<T, 2>& array, std::int64_t count, std::int64_t width) {
  return {array.data(), {count, width}};
}
[[nodiscard]] inline Activations<2> rows(const Activations<2>& array, std::int64_t count,
                                         std::int64_t width) {
  return array.reshaped<2>({count, width});
}
[[nodiscard]] inline Activations<2> rows(const Activations<2>& array, std::int64_t count) {
  return rows(array, count, array.extent(1));
}
[[nodiscard]] inline Activations<3> rows(const Activations<3>& array, std::int64_t count) {
  return array.reshaped<3>({count, array.extent(1), array.extent(2)});
}

/// The rows from `first` on, as an array of their own; of an empty array nothing. FP8 rows have `width`
/// columns, and `first` is a multiple of kScaleRows.
template <int Rank>
[[nodiscard]] Activations<Rank> rows_from(const Activations<Rank>& array, std::int64_t first) {
  return array.empty() ? array : array.slice(first, array.extent(0));
}
[[nodiscard]] View<std::int32_t, 2> rows_from(const View<std::int32_t, 2>& array, std::int64_t first);
[[nodiscard]] Fp8Rows rows_from(const Fp8Rows& array, std::int64_t first, std::int64_t width);

inline constexpr std::int64_t kScaleRows = 4;  ///< strides of scales are multiples of it

}  // namespace baleen
