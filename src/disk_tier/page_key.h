/// Names of pages by what they contain.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tensor/ragged_batch.h"

namespace baleen {

/// 128-bit hash (XXH3) of a page's tokens and of all before them.
struct PageKey {
  std::uint64_t high = 0, low = 0;
  [[nodiscard]] friend bool operator==(const PageKey&, const PageKey&) = default;
};

/// For unordered containers. The key is a hash already.
struct PageKeyHash {
  std::size_t operator()(const PageKey& key) const { return static_cast<std::size_t>(key.low); }
};

/// Key before the first page. `fingerprint` says which model, precision and cache layout made the pages.
[[nodiscard]] PageKey root_key(std::string_view fingerprint);
[[nodiscard]] PageKey page_key(const PageKey& parent, std::span<const TokenId> page_tokens);

/// 32 lower-case hexadecimal digits, and back.
[[nodiscard]] std::string to_hex(const PageKey& key);
[[nodiscard]] std::optional<PageKey> key_from_hex(std::string_view digits);

}  // namespace baleen
