// The fixed texts against the sizes and digests of the format's specification.
#include "chat/format.h"

#include <gtest/gtest.h>

#include "chat/call_tags.h"
#include "sha256.h"

namespace baleen {
namespace {

TEST(Sha256, KnownDigests) {
  EXPECT_EQ(test::sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(test::sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Format, FixedTextsAreExact) {
  EXPECT_EQ(chat_format::kEffortMax.size(), 476u);
  EXPECT_EQ(test::sha256(chat_format::kEffortMax),
            "f7a24f3b3050d4a83781e9b755b316aae2ec1d9dc87562541d90bcb04d7350f7");
  EXPECT_EQ(chat_format::kEffortBeyond.size(), 528u);
  EXPECT_EQ(test::sha256(chat_format::kEffortBeyond),
            "53fb31b8392ec5b4a926481943efc67636748f137c1a49d493a7af4d4fa55d2c");
  EXPECT_EQ(joined_call_tags().tools_head.size(), 890u);
  EXPECT_EQ(test::sha256(joined_call_tags().tools_head),
            "c7c9042638154a237b5d1bd48be772374a35a4d24c5cacfd1ffbd92703da329c");
  EXPECT_EQ(chat_format::kToolsTail.size(), 99u);
  EXPECT_EQ(test::sha256(chat_format::kToolsTail),
            "690702850fe256512cb1ee67c4e436ecb3e735c71ebee77ca45ff357a75fb5a7");
  EXPECT_EQ(chat_format::kFormatHead.size(), 80u);
  EXPECT_EQ(test::sha256(chat_format::kFormatHead),
            "5200f58413f49f3957c43beddbc97bead023232cb5934fad0c1997c30c139112");
}

TEST(Format, SpecialStringsUseTheWideBarAndTheLowBlock) {
  EXPECT_EQ(chat_format::kBos, "<\uFF5Cbegin\u2581of\u2581sentence\uFF5C>");
  EXPECT_EQ(chat_format::kEos, "<\uFF5Cend\u2581of\u2581sentence\uFF5C>");
  EXPECT_EQ(chat_format::kDsml, "\uFF5CDSML\uFF5C");
}

}  // namespace
}  // namespace baleen
