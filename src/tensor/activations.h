/// Activations: arrays whose element type a device chooses. The CPU's are float32 in every precision (in
/// `bf16` and `released` they hold BF16 values); a GPU's are BF16 in memory, but for those that the model
/// keeps in float32.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/check.h"
#include "numeric/bf16.h"
#include "tensor/view.h"

namespace baleen {

enum class ElementType : std::uint8_t { kF32, kBf16 };

[[nodiscard]] constexpr std::int64_t size_of(ElementType type) { return type == ElementType::kF32 ? 4 : 2; }

/// A view like `View`, row-major with a contiguous last axis. Elements are reached through float32 accessors
/// (which want kF32), or as a whole through `bf16()`; extents and cuts are the same for both. `Float` is
/// float or const float; of doubles, in which gradients are checked, elements are what they are.
template <class Float, int Rank>
class ActivationView {
 public:
  using Extents = typename View<Float, Rank>::Extents;
  using Bf16 = std::conditional_t<std::is_const_v<Float>, const Bf16Bits, Bf16Bits>;
  using Byte = std::conditional_t<std::is_const_v<Float>, const std::byte, std::byte>;

  ActivationView() = default;
  ActivationView(View<Float, Rank> view) : view_(view) {}
  ActivationView(View<Bf16, Rank> view)
      : ActivationView(view.data(), ElementType::kBf16, view.extents(), view.strides()) {}
  ActivationView(Float* data, Extents extents) : view_(data, extents) {}
  ActivationView(Float* data, Extents extents, Extents strides) : view_(data, extents, strides) {}
  /// A dense array of either type.
  ActivationView(Byte* data, ElementType type, Extents extents)
      : view_(reinterpret_cast<Float*>(data), extents), type_(type) {}

  operator ActivationView<const Float, Rank>() const requires(!std::is_const_v<Float>) {
    return {address(), type_, view_.extents(), view_.strides()};
  }

  [[nodiscard]] ElementType element_type() const { return type_; }
  /// Where it starts, whatever its type.
  [[nodiscard]] Byte* address() const { return reinterpret_cast<Byte*>(view_.data()); }
  [[nodiscard]] std::int64_t extent(int axis) const { return view_.extent(axis); }
  [[nodiscard]] std::int64_t stride(int axis) const { return view_.stride(axis); }
  [[nodiscard]] const Extents& extents() const { return view_.extents(); }
  [[nodiscard]] const Extents& strides() const { return view_.strides(); }
  [[nodiscard]] std::int64_t size() const { return view_.size(); }
  [[nodiscard]] bool empty() const { return view_.empty(); }
  [[nodiscard]] bool dense() const { return view_.dense(); }

  /// The same elements, dense, in another shape of no more elements.
  template <int NewRank>
  [[nodiscard]] ActivationView<Float, NewRank> reshaped(
      const std::array<std::int64_t, NewRank>& extents) const {
    BALEEN_DCHECK(dense());
    return {address(), type_, extents};
  }
  /// Entries [begin, end) of the first axis.
  [[nodiscard]] ActivationView slice(std::int64_t begin, std::int64_t end) const {
    BALEEN_DCHECK(begin >= 0 && begin <= end && end <= extent(0));
    Extents extents = view_.extents();
    extents[0] = end - begin;
    constexpr bool kDouble = std::is_same_v<std::remove_const_t<Float>, double>;
    const std::int64_t element_bytes = kDouble ? std::int64_t{sizeof(double)} : size_of(type_);
    return {address() + begin * stride(0) * element_bytes, type_, extents, view_.strides()};
  }

  [[nodiscard]] View<Float, Rank> f32() const {
    BALEEN_CHECK(type_ == ElementType::kF32);
    return view_;
  }
  [[nodiscard]] View<Bf16, Rank> bf16() const {
    BALEEN_CHECK(type_ == ElementType::kBf16);
    return {reinterpret_cast<Bf16*>(view_.data()), view_.extents(), view_.strides()};
  }

  // Of float32 arrays.
  operator View<Float, Rank>() const { return f32(); }
  operator View<const Float, Rank>() const requires(!std::is_const_v<Float>) { return f32(); }
  [[nodiscard]] Float* data() const { return f32().data(); }
  [[nodiscard]] std::span<Float> row(std::int64_t index) const requires(Rank == 2) {
    return f32().row(index);
  }
  [[nodiscard]] View<Float, Rank - 1> operator[](std::int64_t index) const requires(Rank > 1) {
    return f32()[index];
  }
  template <class... Index>
  [[nodiscard]] Float& operator()(Index... index) const {
    return f32()(index...);
  }

 private:
  template <class, int>
  friend class ActivationView;

  ActivationView(Byte* data, ElementType type, Extents extents, Extents strides)
      : view_(reinterpret_cast<Float*>(data), extents, strides), type_(type) {}
  ActivationView(Bf16* data, ElementType type, Extents extents, Extents strides)
      : ActivationView(reinterpret_cast<Byte*>(data), type, extents, strides) {}

  View<Float, Rank> view_;  ///< counts only by its address, extents and strides where elements are BF16
  ElementType type_ = ElementType::kF32;
};

template <int Rank>
using Activations = ActivationView<float, Rank>;
template <int Rank>
using ConstActivations = ActivationView<const float, Rank>;

}  // namespace baleen
