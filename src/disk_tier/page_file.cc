#include "disk_tier/page_file.h"

#include <xxhash.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace baleen {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little endian, and copied as they are");

constexpr std::array<char, 8> kMagic = {'B', 'A', 'L', 'E', 'E', 'N', 'K', 'V'};
constexpr std::uint32_t kVersion = 1;
/// Rows are 8-bit codes that hardly compress; levels above take longer and save no more.
constexpr int kCompressionLevel = 1;
constexpr std::int64_t kMaxTokens = 1 << 16;
constexpr std::int64_t kChecksumBytes = 16;

struct Header {
  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t num_tokens = 0;
  PageKey key, root;
  std::uint64_t page_bytes = 0, window_bytes = 0;
  std::uint64_t packed_page_bytes = 0, packed_window_bytes = 0;
};
static_assert(sizeof(Header) == kPageFileHeaderBytes);
static_assert(std::has_unique_object_representations_v<Header>, "padding would be written");

using Checksum = PageKey;

Checksum checksum_of(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {.high = hash.high64, .low = hash.low64};
}

/// Appends a zstd frame; returns its size.
std::uint64_t append_packed(std::vector<std::byte>& file, std::span<const std::byte> bytes) {
  if (bytes.empty()) return 0;
  const std::size_t begin = file.size();
  file.resize(begin + ZSTD_compressBound(bytes.size()));
  const std::size_t size =
      ZSTD_compress(file.data() + begin, file.size() - begin, bytes.data(), bytes.size(), kCompressionLevel);
  BALEEN_CHECK(!ZSTD_isError(size));
  file.resize(begin + size);
  return size;
}

Result<std::vector<std::byte>> unpack(std::span<const std::byte> packed, std::uint64_t bytes) {
  std::vector<std::byte> unpacked(bytes);
  if (bytes == 0) return unpacked;
  const std::size_t size = ZSTD_decompress(unpacked.data(), unpacked.size(), packed.data(), packed.size());
  if (ZSTD_isError(size)) return failure("its payload cannot be unpacked: {}", ZSTD_getErrorName(size));
  if (size != bytes) return failure("its payload unpacks to {} bytes, its header says {}", size, bytes);
  return unpacked;
}

Result<Header> parse_header(std::span<const std::byte> beginning, std::uint64_t file_bytes) {
  constexpr std::size_t kLeastBytes = sizeof(Header) + sizeof(Checksum);
  Header header;
  if (beginning.size() < sizeof(header) || file_bytes < kLeastBytes) {
    return failure("it has {} bytes, a file of the cache at least {}", file_bytes, kLeastBytes);
  }
  std::memcpy(&header, beginning.data(), sizeof(header));
  if (header.magic != kMagic) return failure("it does not begin like a file of the cache");
  if (header.version != kVersion) {
    return failure("its format has version {}, this program reads {}", header.version, kVersion);
  }
  std::uint64_t bytes_left = file_bytes - kLeastBytes;
  for (const std::uint64_t part : {header.num_tokens * std::uint64_t{sizeof(TokenId)},
                                   header.packed_page_bytes, header.packed_window_bytes}) {
    if (part > bytes_left) return failure("its header promises more than its {} bytes", file_bytes);
    bytes_left -= part;
  }
  if (bytes_left != 0) return failure("it has {} bytes more than its header promises", bytes_left);
  if ((header.window_bytes == 0) != (header.packed_window_bytes == 0)) {
    return failure("its header contradicts itself about window rows");
  }
  return header;
}

}  // namespace

std::int64_t max_page_file_bytes(const PageFileShape& shape) {
  const auto packed = [](std::int64_t bytes) {
    return static_cast<std::int64_t>(ZSTD_compressBound(static_cast<std::size_t>(bytes)));
  };
  return static_cast<std::int64_t>(kPageFileHeaderBytes) +
         kMaxTokens * static_cast<std::int64_t>(sizeof(TokenId)) + packed(shape.page_bytes) +
         packed(shape.window_page_bytes) + kChecksumBytes;
}

std::vector<std::byte> encode_page_file(const PageFileShape& shape, const PageKey& key,
                                        std::span<const TokenId> tokens, std::span<const std::byte> page,
                                        std::span<const std::byte> window) {
  BALEEN_CHECK_EQ(std::ssize(page), shape.page_bytes);
  BALEEN_CHECK(window.empty() || std::ssize(window) == shape.window_page_bytes);
  Header header{.num_tokens = static_cast<std::uint32_t>(tokens.size()),
                .key = key,
                .root = shape.root,
                .page_bytes = page.size(),
                .window_bytes = window.size()};
  const auto token_bytes = std::as_bytes(tokens);
  std::vector<std::byte> file(sizeof(header) + token_bytes.size());
  std::ranges::copy(token_bytes, file.begin() + sizeof(header));
  header.packed_page_bytes = append_packed(file, page);
  header.packed_window_bytes = append_packed(file, window);
  std::memcpy(file.data(), &header, sizeof(header));
  const Checksum checksum = checksum_of(file);
  file.resize(file.size() + sizeof(checksum));
  std::memcpy(file.data() + file.size() - sizeof(checksum), &checksum, sizeof(checksum));
  return file;
}

Result<StoredPage> decode_page_file(std::span<const std::byte> file, const PageFileShape& shape,
                                    const PageKey& key, std::span<const TokenId> tokens) {
  const Result<Header> parsed = parse_header(file, file.size());
  if (!parsed) return Failure{parsed.error()};
  const Header& header = parsed.value();

  const auto content = file.first(file.size() - sizeof(Checksum));
  Checksum checksum;
  std::memcpy(&checksum, file.data() + content.size(), sizeof(checksum));
  if (checksum_of(content) != checksum) return failure("its checksum is wrong");

  if (header.root != shape.root) {
    return failure("it was made by another model, precision or cache layout");
  }
  if (header.key != key) return failure("it holds the page {}", to_hex(header.key));
  if (header.page_bytes != static_cast<std::uint64_t>(shape.page_bytes)) {
    return failure("its page has {} bytes, {} expected", header.page_bytes, shape.page_bytes);
  }
  if (header.window_bytes != 0 &&
      header.window_bytes != static_cast<std::uint64_t>(shape.window_page_bytes)) {
    return failure("its window rows have {} bytes, {} expected", header.window_bytes,
                   shape.window_page_bytes);
  }
  const auto token_bytes = content.subspan(sizeof(Header), header.num_tokens * sizeof(TokenId));
  if (!std::ranges::equal(token_bytes, std::as_bytes(tokens))) return failure("it holds other tokens");

  const auto packed = content.subspan(sizeof(Header) + token_bytes.size());
  Result<std::vector<std::byte>> page = unpack(packed.first(header.packed_page_bytes), header.page_bytes);
  if (!page) return Failure{page.error()};
  Result<std::vector<std::byte>> window =
      unpack(packed.subspan(header.packed_page_bytes), header.window_bytes);
  if (!window) return Failure{window.error()};
  return StoredPage{.page = std::move(page).value(), .window = std::move(window).value()};
}

Result<PageFileClaim> read_page_file_header(std::span<const std::byte> beginning, std::int64_t file_bytes) {
  const Result<Header> header = parse_header(beginning, static_cast<std::uint64_t>(file_bytes));
  if (!header) return Failure{header.error()};
  return PageFileClaim{
      .key = header.value().key, .root = header.value().root, .has_window = header.value().window_bytes > 0};
}

}  // namespace baleen
