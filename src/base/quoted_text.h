/// Text of others inside our sentences: bounded, and without characters that a terminal would act on.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace baleen {

/// `text` in double quotes, control characters and bytes that are not UTF-8 escaped as in C++; beyond
/// `limit_bytes` an ellipsis and the length stand for the rest: `"AAAA..." (5,000,000 bytes)`.
[[nodiscard]] std::string quoted_text(std::string_view text, std::size_t limit_bytes = 60);

/// The same without the quotes: for a name that leads a sentence.
[[nodiscard]] std::string shortened_text(std::string_view text, std::size_t limit_bytes = 200);

}  // namespace baleen
