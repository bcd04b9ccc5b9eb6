/// Non-owning views of arrays: a pointer, extents and strides. Row-major, the last axis contiguous.
/// Kernels take views; `Buffer` owns. A default-constructed view is empty and has a null pointer.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/check.h"

namespace baleen {

template <class T, int Rank>
class View {
 public:
  static_assert(Rank >= 1);
  using Extents = std::array<std::int64_t, Rank>;

  View() = default;

  /// A dense row-major array.
  View(T* data, Extents extents) : data_(data), extents_(extents) {
    std::int64_t stride = 1;
    for (int axis = Rank - 1; axis >= 0; --axis) {
      strides_[axis] = stride;
      stride *= extents_[axis];
    }
  }

  /// Strides in elements; the last one must be 1.
  View(T* data, Extents extents, Extents strides) : data_(data), extents_(extents), strides_(strides) {
    BALEEN_DCHECK(strides_[Rank - 1] == 1);
  }

  /// A view of values is a view of constant values.
  operator View<const T, Rank>() const requires(!std::is_const_v<T>) { return {data_, extents_, strides_}; }

  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] std::int64_t extent(int axis) const { return extents_[axis]; }
  [[nodiscard]] std::int64_t stride(int axis) const { return strides_[axis]; }
  [[nodiscard]] const Extents& extents() const { return extents_; }
  [[nodiscard]] const Extents& strides() const { return strides_; }
  [[nodiscard]] std::int64_t size() const {
    std::int64_t product = 1;
    for (const std::int64_t extent : extents_) product *= extent;
    return product;
  }
  [[nodiscard]] bool empty() const { return data_ == nullptr || size() == 0; }
  [[nodiscard]] bool dense() const {
    std::int64_t stride = 1;
    for (int axis = Rank - 1; axis >= 0; --axis) {
      if (extents_[axis] > 1 && strides_[axis] != stride) return false;
      stride *= extents_[axis];
    }
    return true;
  }

  /// Element by one index per axis.
  template <class... Index>
  [[nodiscard]] T& operator()(Index... index) const {
    static_assert(sizeof...(Index) == Rank);
    const Extents at{static_cast<std::int64_t>(index)...};
    std::int64_t offset = 0;
    for (int axis = 0; axis < Rank; ++axis) {
      BALEEN_DCHECK(at[axis] >= 0 && at[axis] < extents_[axis]);
      offset += at[axis] * strides_[axis];
    }
    return data_[offset];
  }

  /// The sub-array at `index` of the first axis.
  [[nodiscard]] View<T, Rank - 1> operator[](std::int64_t index) const requires(Rank > 1) {
    BALEEN_DCHECK(index >= 0 && index < extents_[0]);
    typename View<T, Rank - 1>::Extents extents;
    typename View<T, Rank - 1>::Extents strides;
    for (int axis = 1; axis < Rank; ++axis) {
      extents[axis - 1] = extents_[axis];
      strides[axis - 1] = strides_[axis];
    }
    return {data_ + index * strides_[0], extents, strides};
  }

  /// Row `index` of a matrix as a span.
  [[nodiscard]] std::span<T> row(std::int64_t index) const requires(Rank == 2) {
    BALEEN_DCHECK(index >= 0 && index < extents_[0]);
    return {data_ + index * strides_[0], static_cast<std::size_t>(extents_[1])};
  }

  /// Entries [begin, end) of the first axis.
  [[nodiscard]] View slice(std::int64_t begin, std::int64_t end) const {
    BALEEN_DCHECK(begin >= 0 && begin <= end && end <= extents_[0]);
    View part = *this;
    part.data_ = data_ + begin * strides_[0];
    part.extents_[0] = end - begin;
    return part;
  }

 private:
  T* data_ = nullptr;
  Extents extents_{};
  Extents strides_{};
};

}  // namespace baleen
