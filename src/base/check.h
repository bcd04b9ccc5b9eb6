/// Assertions: a broken invariant is a bug of ours, never of the input. They print the expression, both
/// values and the place, then stop. BALEEN_CHECK is always on and belongs at boundaries; BALEEN_DCHECK
/// vanishes with NDEBUG.
#pragma once

#include <fmt/format.h>

#include <string_view>

namespace baleen {

[[noreturn]] void check_failed(std::string_view expression, std::string_view detail, const char* file,
                               int line);

}  // namespace baleen

#define BALEEN_CHECK(condition)                                   \
  do {                                                            \
    if (!(condition)) [[unlikely]]                                \
      ::baleen::check_failed(#condition, "", __FILE__, __LINE__); \
  } while (false)

#define BALEEN_CHECK_OP(a, op, b)                                                                            \
  do {                                                                                                       \
    if (!((a)op(b))) [[unlikely]]                                                                            \
      ::baleen::check_failed(#a " " #op " " #b, fmt::format("{} against {}", (a), (b)), __FILE__, __LINE__); \
  } while (false)

#define BALEEN_CHECK_EQ(a, b) BALEEN_CHECK_OP(a, ==, b)
#define BALEEN_CHECK_LE(a, b) BALEEN_CHECK_OP(a, <=, b)
#define BALEEN_CHECK_LT(a, b) BALEEN_CHECK_OP(a, <, b)

#ifdef NDEBUG
#define BALEEN_DCHECK(condition) static_cast<void>(0)
#else
#define BALEEN_DCHECK(condition) BALEEN_CHECK(condition)
#endif
