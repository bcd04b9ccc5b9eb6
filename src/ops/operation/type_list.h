/// A list of types, to write code once for all of them.
#pragma once

#include <cstddef>
#include <type_traits>

namespace baleen {

template <class... Types>
struct TypeList {
  static constexpr std::size_t kSize = sizeof...(Types);

  /// Calls `function(std::type_identity<T>())` for each type in order.
  template <class Function>
  static constexpr void for_each(Function&& function) {
    (function(std::type_identity<Types>()), ...);
  }
};

}  // namespace baleen
