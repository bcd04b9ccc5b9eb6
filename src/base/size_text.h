/// Sizes in bytes as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace baleen {

/// "3.5 kB", "20.5 MB", "1.25 GB": powers of 1000
[[nodiscard]] std::string size_text(std::int64_t bytes);

}  // namespace baleen
