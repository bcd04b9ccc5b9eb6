// Any bytes are a page of the cache that survives being written again, or a sentence. Checksums are made
// right first, as no mutation would, so that what lies behind them is reached; then the bytes are read as
// they came.
#include <xxhash.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "disk_tier/page_file.h"

namespace baleen {
namespace {

constexpr std::size_t kTokenCountOffset = 12;

void check_file(std::span<const std::byte> file) {
  const Result<PageFileClaim> claim = read_page_file_header(file, std::ssize(file));
  PageFileShape shape{.page_bytes = 64, .window_page_bytes = 96};
  PageKey key;
  std::vector<TokenId> tokens;
  if (claim) {
    shape.root = claim.value().root;
    key = claim.value().key;
    std::uint32_t num_tokens = 0;
    std::memcpy(&num_tokens, file.data() + kTokenCountOffset, sizeof(num_tokens));
    tokens.resize(num_tokens);
    const auto token_bytes = file.subspan(kPageFileHeaderBytes, num_tokens * sizeof(TokenId));
    if (!tokens.empty()) std::memcpy(tokens.data(), token_bytes.data(), token_bytes.size());
  }
  const Result<StoredPage> page = decode_page_file(file, shape, key, tokens);
  BALEEN_CHECK(page.ok() || !page.error().empty());
  if (!page) return;
  BALEEN_CHECK(claim.ok());
  const StoredPage& content = page.value();
  const std::vector<std::byte> written = encode_page_file(shape, key, tokens, content.page, content.window);
  const Result<StoredPage> again = decode_page_file(written, shape, key, tokens);
  BALEEN_CHECK(again.ok() && again.value().page == content.page && again.value().window == content.window);
}

}  // namespace
}  // namespace baleen

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  baleen::check_file(bytes);
  if (size < sizeof(baleen::PageKey)) return 0;
  std::vector<std::byte> sealed(bytes.begin(), bytes.end());
  const XXH128_hash_t hash = XXH3_128bits(sealed.data(), sealed.size() - sizeof(baleen::PageKey));
  const baleen::PageKey checksum{.high = hash.high64, .low = hash.low64};
  std::memcpy(sealed.data() + sealed.size() - sizeof(checksum), &checksum, sizeof(checksum));
  baleen::check_file(sealed);
  return 0;
}
