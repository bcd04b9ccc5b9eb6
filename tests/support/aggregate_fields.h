// The fields of a plain struct, one after the other: so that a test notices one that it does not know.
#pragma once

#include <cstddef>
#include <utility>

namespace baleen::test {

namespace aggregate_details {

struct Anything {
  template <class T>
  constexpr operator T&() const&;
  template <class T>
  constexpr operator T&&() const&&;
};

template <class T, std::size_t... kIndex>
constexpr bool takes(std::index_sequence<kIndex...> /*indices*/) {
  return requires { T{(static_cast<void>(kIndex), Anything{})...}; };
}

inline constexpr std::size_t kMaxFields = 24;

}  // namespace aggregate_details

template <class T, std::size_t kCount = aggregate_details::kMaxFields>
constexpr std::size_t num_fields() {
  if constexpr (kCount == 0) {
    return 0;
  } else if constexpr (aggregate_details::takes<T>(std::make_index_sequence<kCount>())) {
    return kCount;
  } else {
    return num_fields<T, kCount - 1>();
  }
}

/// Calls `see(place, field)` for each field of `all`.
template <class T, class See>
void for_each_field(const T& all, See&& see) {
  const auto each = [&](const auto&... fields) {
    std::size_t place = 0;
    (see(place++, fields), ...);
  };
  constexpr std::size_t kCount = num_fields<T>();
  static_assert(kCount > 1 && kCount < 19, "add a line");
#define BALEEN_FIELDS(COUNT, ...)    \
  if constexpr (kCount == COUNT) {   \
    const auto& [__VA_ARGS__] = all; \
    each(__VA_ARGS__);               \
  }
  BALEEN_FIELDS(2, a, b)
  BALEEN_FIELDS(3, a, b, c)
  BALEEN_FIELDS(4, a, b, c, d)
  BALEEN_FIELDS(5, a, b, c, d, e)
  BALEEN_FIELDS(6, a, b, c, d, e, f)
  BALEEN_FIELDS(7, a, b, c, d, e, f, g)
  BALEEN_FIELDS(8, a, b, c, d, e, f, g, h)
  BALEEN_FIELDS(9, a, b, c, d, e, f, g, h, i)
  BALEEN_FIELDS(10, a, b, c, d, e, f, g, h, i, j)
  BALEEN_FIELDS(11, a, b, c, d, e, f, g, h, i, j, k)
  BALEEN_FIELDS(12, a, b, c, d, e, f, g, h, i, j, k, l)
  BALEEN_FIELDS(13, a, b, c, d, e, f, g, h, i, j, k, l, m)
  BALEEN_FIELDS(14, a, b, c, d, e, f, g, h, i, j, k, l, m, n)
  BALEEN_FIELDS(15, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o)
  BALEEN_FIELDS(16, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)
  BALEEN_FIELDS(17, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q)
  BALEEN_FIELDS(18, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r)
#undef BALEEN_FIELDS
}

}  // namespace baleen::test
