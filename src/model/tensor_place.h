/// Where a tree has a tensor.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>

#include "model/weight_tree.h"

namespace baleen {

/// A member of a tree of views. Its type says how the tensor is held.
using HeldTensor = std::variant<WeightMatrix*,  ///< as stored, with scales in the form that kernels read
                                std::span<const float>*,      ///< a vector, in float32
                                View<const float, 2>*,        ///< a table, in float32
                                View<const Bf16Bits, 2>*,     ///< rows in BF16
                                View<const std::int32_t, 2>*  ///< ids in int32
                                >;

enum class Holding : std::uint8_t { kMatrix, kFloats, kBf16, kIds };

class TensorPlace {
 public:
  TensorPlace() = default;

  /// Both are empty lambdas: `owner` from a tree, a block and an expert of it to an object in the tree,
  /// `member` from that to one of its members, each by reference.
  template <class Owner, class Member>
  static TensorPlace of(Owner /*owner*/, Member /*member*/) {
    using Held = std::remove_cvref_t<decltype(
        Member{}(Owner{}(std::declval<WeightTree&>(), std::int64_t{}, std::int64_t{})))>;
    TensorPlace place;
    place.held_ = [](WeightTree& tree, std::int64_t block, std::int64_t expert) -> HeldTensor {
      return &Member{}(Owner{}(tree, block, expert));
    };
    place.row_ = [](RowTree& tree, std::int64_t block, std::int64_t expert) -> TensorRow& {
      return Member{}(Owner{}(tree, block, expert));
    };
    place.holding_ = std::is_same_v<Held, WeightMatrix>                  ? Holding::kMatrix
                     : std::is_same_v<Held, View<const Bf16Bits, 2>>     ? Holding::kBf16
                     : std::is_same_v<Held, View<const std::int32_t, 2>> ? Holding::kIds
                                                                         : Holding::kFloats;
    return place;
  }

  /// False: the tensor lies outside the trees, as tables of n-grams do.
  [[nodiscard]] bool exists() const { return held_ != nullptr; }
  [[nodiscard]] Holding holding() const { return holding_; }
  /// The tree has the block, and of a routed expert's tensor the expert.
  [[nodiscard]] HeldTensor in(WeightTree& tree, std::int64_t block, std::int64_t expert) const {
    return held_(tree, block, expert);
  }
  [[nodiscard]] TensorRow& in(RowTree& tree, std::int64_t block, std::int64_t expert) const {
    return row_(tree, block, expert);
  }

 private:
  HeldTensor (*held_)(WeightTree&, std::int64_t, std::int64_t) = nullptr;
  TensorRow& (*row_)(RowTree&, std::int64_t, std::int64_t) = nullptr;
  Holding holding_ = Holding::kMatrix;
};

/// Calls `visit(data, size_bytes)` for each array of `held`, where `data` is a `const std::byte*&` that
/// stands for the array's address; of a matrix first the weights, then the scales, then the scale of
/// the whole. Arrays without elements are passed over.
template <class Visit>
void visit_arrays(HeldTensor held, Visit visit) {
  const auto array = [&](const std::byte* data, std::int64_t size_bytes) {
    if (size_bytes > 0) visit(data, size_bytes);
    return data;
  };
  const auto elements = [&](const auto* data, std::int64_t count) {
    using T = std::remove_cvref_t<decltype(*data)>;
    return reinterpret_cast<const T*>(
        array(reinterpret_cast<const std::byte*>(data), count * static_cast<std::int64_t>(sizeof(T))));
  };
  std::visit(
      [&](auto* tensor) {
        using T = std::remove_pointer_t<decltype(tensor)>;
        if constexpr (std::is_same_v<T, WeightMatrix>) {
          tensor->data = array(tensor->data, tensor->size_bytes());
          tensor->set_scales(array(tensor->scales(), tensor->scale_bytes()));
          tensor->set_matrix_scale(
              array(reinterpret_cast<const std::byte*>(tensor->matrix_scale), tensor->matrix_scale_bytes()));
        } else if constexpr (std::is_same_v<T, std::span<const float>>) {
          *tensor = {elements(tensor->data(), std::ssize(*tensor)), tensor->size()};
        } else {
          *tensor = {elements(tensor->data(), tensor->size()), tensor->extents()};
        }
      },
      held);
}

}  // namespace baleen
