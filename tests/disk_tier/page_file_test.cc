// A page file gives what was written, or a sentence: every byte flipped, every length cut.
#include "disk_tier/page_file.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <cstring>

#include "test_pages.h"

namespace baleen {
namespace {

using test::same_content;
using test::test_page;
using test::TestPage;
using Bytes = std::vector<std::byte>;

const PageFileShape kShape{.root = root_key("model"), .page_bytes = 300, .window_page_bytes = 500};

Bytes encode(const TestPage& page) {
  return encode_page_file(kShape, page.key, page.tokens, page.content.page, page.content.window);
}

/// Makes the checksum right again, as only an adversary or a bug would.
Bytes sealed(Bytes file) {
  const XXH128_hash_t hash = XXH3_128bits(file.data(), file.size() - sizeof(PageKey));
  const PageKey checksum{.high = hash.high64, .low = hash.low64};
  std::memcpy(file.data() + file.size() - sizeof(checksum), &checksum, sizeof(checksum));
  return file;
}

std::string error_of(const Bytes& file, const TestPage& page, const PageFileShape& shape = kShape) {
  const Result<StoredPage> decoded = decode_page_file(file, shape, page.key, page.tokens);
  return decoded ? "" : decoded.error();
}

TEST(PageFile, GivesBackWhatWasWritten) {
  for (const bool with_window : {true, false}) {
    const TestPage page = test_page(1, kShape, with_window);
    const Bytes file = encode(page);
    const Result<StoredPage> decoded = decode_page_file(file, kShape, page.key, page.tokens);
    ASSERT_TRUE(decoded.ok()) << decoded.error();
    EXPECT_TRUE(same_content(decoded.value(), page.content));
    const Result<PageFileClaim> claim = read_page_file_header(file, std::ssize(file));
    ASSERT_TRUE(claim.ok());
    EXPECT_EQ(claim.value().key, page.key);
    EXPECT_EQ(claim.value().root, kShape.root);
    EXPECT_EQ(claim.value().has_window, with_window);
  }
}

TEST(PageFile, EveryFlippedBitIsNoticed) {
  const TestPage page = test_page(2, kShape);
  Bytes file = encode(page);
  for (std::size_t at = 0; at < file.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      const std::byte mask{static_cast<unsigned char>(1 << bit)};
      file[at] ^= mask;
      EXPECT_NE(error_of(file, page), "") << at;
      file[at] ^= mask;
    }
  }
  EXPECT_EQ(error_of(file, page), "");
}

TEST(PageFile, EveryOtherLengthIsNoticed) {
  const TestPage page = test_page(3, kShape);
  const Bytes file = encode(page);
  for (std::size_t size = 0; size < file.size(); ++size) {
    const Bytes cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_NE(error_of(cut, page), "") << size;
    EXPECT_FALSE(read_page_file_header(cut, std::ssize(cut)).ok()) << size;
  }
  Bytes longer = file;
  longer.push_back(std::byte{0});
  EXPECT_NE(error_of(longer, page), "");
  EXPECT_FALSE(read_page_file_header(longer, std::ssize(longer)).ok());
}

TEST(PageFile, HeadersThatLieUnderARightChecksumAreNoticed) {
  const TestPage page = test_page(4, kShape);
  const Bytes file = encode(page);
  for (std::size_t at = 0; at < kPageFileHeaderBytes; ++at) {
    for (const int value : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
      Bytes lying = file;
      if (lying[at] == static_cast<std::byte>(value)) continue;
      lying[at] = static_cast<std::byte>(value);
      EXPECT_NE(error_of(sealed(lying), page), "") << at;
    }
  }
}

TEST(PageFile, PayloadsThatLieUnderARightChecksumDoNoHarm) {
  const TestPage page = test_page(5, kShape);
  const Bytes file = encode(page);
  std::mt19937 random(5);
  for (int i = 0; i < 2000; ++i) {
    Bytes lying = file;
    const std::size_t begin = kPageFileHeaderBytes + page.tokens.size() * sizeof(TokenId);
    const std::size_t end = file.size() - sizeof(PageKey);
    lying[begin + random() % (end - begin)] = static_cast<std::byte>(random());
    const Result<StoredPage> decoded = decode_page_file(sealed(lying), kShape, page.key, page.tokens);
    if (!decoded) continue;  // raw blocks of zstd carry no proof of their own
    EXPECT_EQ(std::ssize(decoded.value().page), kShape.page_bytes);
    EXPECT_EQ(std::ssize(decoded.value().window), kShape.window_page_bytes);
  }
}

TEST(PageFile, OnlyWhoAsksForTheSameGetsIt) {
  const TestPage page = test_page(6, kShape);
  const Bytes file = encode(page);
  TestPage other = page;
  other.key.low ^= 1;
  EXPECT_EQ(error_of(file, other), "it holds the page " + to_hex(page.key));
  other = page;
  other.tokens.back() ^= 1;
  EXPECT_EQ(error_of(file, other), "it holds other tokens");
  PageFileShape shape = kShape;
  shape.root = root_key("another model");
  EXPECT_EQ(error_of(file, page, shape), "it was made by another model, precision or cache layout");
  shape = kShape;
  shape.page_bytes = 301;
  EXPECT_EQ(error_of(file, page, shape), "its page has 300 bytes, 301 expected");
  shape = kShape;
  shape.window_page_bytes = 499;
  EXPECT_EQ(error_of(file, page, shape), "its window rows have 500 bytes, 499 expected");
}

TEST(PageFile, OtherVersionsAreNamed) {
  const TestPage page = test_page(7, kShape);
  Bytes file = encode(page);
  file[8] = std::byte{2};
  EXPECT_EQ(error_of(sealed(file), page), "its format has version 2, this program reads 1");
}

TEST(PageKeys, FollowFromAllThatCameBefore) {
  const std::vector<TokenId> first = {1, 2, 3}, second = {4, 5, 6};
  const PageKey root = root_key("model");
  EXPECT_EQ(page_key(root, first), page_key(root_key("model"), first));
  EXPECT_FALSE(page_key(root, first) == page_key(root, second));
  EXPECT_FALSE(page_key(root, first) == page_key(root_key("other"), first));
  EXPECT_FALSE(page_key(page_key(root, first), second) == page_key(page_key(root, second), second));
}

TEST(PageKeys, AreReadBackFromNames) {
  const PageKey key{.high = 0x0123456789abcdef, .low = 0xf};
  EXPECT_EQ(to_hex(key), "0123456789abcdef000000000000000f");
  EXPECT_EQ(key_from_hex(to_hex(key)), key);
  for (const char* wrong :
       {"", "0123", "0123456789ABCDEF000000000000000f", "0123456789abcdef00000000000000 f",
        "0123456789abcdef000000000000000f0", "-123456789abcdef000000000000000f"}) {
    EXPECT_FALSE(key_from_hex(wrong).has_value()) << wrong;
  }
}

}  // namespace
}  // namespace baleen
