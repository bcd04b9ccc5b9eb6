#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace baleen {

void check_failed(std::string_view expression, std::string_view detail, const char* file, int line) {
  fmt::print(stderr, "baleen: bug: {}:{}: check failed: {}{}{}\n", file, line, expression,
             detail.empty() ? "" : ": ", detail);
  std::abort();
}

}  // namespace baleen
