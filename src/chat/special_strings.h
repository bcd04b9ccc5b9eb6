/// The strings that are control tokens in the chat format.
#pragma once

#include <span>
#include <string_view>

#include "base/marked_text.h"

namespace baleen {

/// BOS, the end token, role, task and thinking tokens, and `｜DSML｜`: of all formats. To those of V4
/// `<｜System｜>` is text, which no user writes.
[[nodiscard]] std::span<const std::string_view> special_strings();

/// `text` with every special string taken for the token: what the official parser assumes of all text. Bytes
/// that are not UTF-8 become U+FFFD.
[[nodiscard]] MarkedText with_marked_specials(std::string_view text);

/// `text` without special strings, not even one that joins where another was taken out.
[[nodiscard]] std::string without_specials(std::string_view text);

}  // namespace baleen
