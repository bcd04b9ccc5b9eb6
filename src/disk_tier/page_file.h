/// The bytes of one file: a page of the cache, and proof of what it is.
///
///     offset  bytes  content (little endian)
///          0      8  "BALEENKV"
///          8      4  version of this format
///         12      4  number of tokens, n
///         16     16  key of the page
///         32     16  root key: hash of the fingerprint
///         48      8  bytes of the page
///         56      8  bytes of its window rows; 0: none
///         64      8  bytes of the page, packed, p
///         72      8  bytes of the window rows, packed, w
///         80     4n  tokens
///    80 + 4n      p  zstd frame: the page
///              +  w  zstd frame: its window rows
///              + 16  XXH3-128 of all before
///
/// Reading trusts nothing: any bytes give either exactly what was written or a sentence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "disk_tier/page_key.h"
#include "tensor/ragged_batch.h"

namespace baleen {

struct StoredPage {
  std::vector<std::byte> page;
  std::vector<std::byte> window;  ///< empty when the file has no window rows
};

/// What all files of a model agree in.
struct PageFileShape {
  PageKey root;  ///< key before the first page
  std::int64_t page_bytes = 0, window_page_bytes = 0;
};

/// `window` may be empty; sizes are the shape's. Costs a pass of zstd at its fastest regular level.
[[nodiscard]] std::vector<std::byte> encode_page_file(const PageFileShape& shape, const PageKey& key,
                                                      std::span<const TokenId> tokens,
                                                      std::span<const std::byte> page,
                                                      std::span<const std::byte> window);

/// No file of this shape is larger.
[[nodiscard]] std::int64_t max_page_file_bytes(const PageFileShape& shape);

/// The page that `key` and `tokens` name. Allocates no more than the shape's sizes.
[[nodiscard]] Result<StoredPage> decode_page_file(std::span<const std::byte> file, const PageFileShape& shape,
                                                  const PageKey& key, std::span<const TokenId> tokens);

inline constexpr std::size_t kPageFileHeaderBytes = 80;

/// What the beginning of a file claims. Nothing is verified but that the claim suits the file's length.
struct PageFileClaim {
  PageKey key, root;
  bool has_window = false;
};

[[nodiscard]] Result<PageFileClaim> read_page_file_header(std::span<const std::byte> beginning,
                                                          std::int64_t file_bytes);

}  // namespace baleen
