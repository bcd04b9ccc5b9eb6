/// Texts without compatibility forms, accents and case: NFKC, NFD, marks removed, lower case, character by
/// character as the `tokenizers` library does it.
#pragma once

#include <string>
#include <string_view>

namespace baleen {

/// `text` is valid UTF-8.
[[nodiscard]] std::string fold_text(std::string_view text);

}  // namespace baleen
