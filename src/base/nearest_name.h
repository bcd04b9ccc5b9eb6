/// The name that was probably meant.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace baleen {

/// The one of `names` with the fewest single-character changes (insert, delete, replace, swap of neighbours)
/// from `word`, or empty where even that needs more than a third of the word's length, at least 1. Words
/// above 64 bytes have none.
[[nodiscard]] std::string nearest_name(std::string_view word, std::span<const std::string> names);

/// `; did you mean NAME?`, or empty.
[[nodiscard]] std::string did_you_mean(std::string_view word, std::span<const std::string> names);

}  // namespace baleen
