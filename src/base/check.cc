#include "base/check.h"

#include <cstdlib>

#include "base/standard_streams.h"

namespace baleen {

void check_failed(std::string_view expression, std::string_view detail, const char* file, int line) {
  write_standard_error(fmt::format("baleen: bug: {}:{}: check failed: {}{}{}\n", file, line, expression,
                                   detail.empty() ? "" : ": ", detail));
  std::abort();
}

}  // namespace baleen
