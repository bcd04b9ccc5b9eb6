#include "tokenizer/byte_level.h"

#include <gtest/gtest.h>

#include <set>

namespace baleen {
namespace {

TEST(ByteLevel, KnownCharacters) {
  EXPECT_EQ(byte_level_character(' '), "\u0120");
  EXPECT_EQ(byte_level_character('\n'), "\u010A");
  EXPECT_EQ(byte_level_character('A'), "A");
  EXPECT_EQ(byte_level_character(0xAD), "\u0143");
  EXPECT_EQ(byte_level_character(0xFF), "\u00FF");
}

TEST(ByteLevel, EveryByteHasItsOwnCharacterAndComesBack) {
  std::set<std::string> characters;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string character = byte_level_character(static_cast<std::uint8_t>(byte));
    characters.insert(character);
    EXPECT_EQ(byte_level_decode(character), std::string(1, static_cast<char>(byte)));
  }
  EXPECT_EQ(characters.size(), 256u);
}

TEST(ByteLevel, OtherCharactersAreOutside) {
  for (const char* token : {"a b", "\uFF5C", "\u0144", "\u00AD", "\u00A0", "\U0001F600", "x\u2581y"}) {
    EXPECT_EQ(byte_level_decode(token), std::nullopt) << token;
  }
  EXPECT_EQ(byte_level_decode(""), "");
}

}  // namespace
}  // namespace baleen
