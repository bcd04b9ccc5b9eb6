#include "tokenizer/pattern_dialect.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tokenizer/split_pattern.h"

namespace baleen {
namespace {

bool matches(const char* pattern, std::string_view text) {
  const SplitPattern compiled({pattern, false}, "test");
  MatchScratch scratch(text.size());
  const SplitPattern::Match match = compiled.find(text, 0, scratch);
  return match.status == SplitPattern::Match::Status::kFound && match.begin == 0 && match.end == text.size();
}

TEST(PatternDialect, SpaceIsUnicodeWhiteSpace) {
  for (const char* space :
       {" ", "\t", "\n", "\x0B", "\f", "\r", "\u0085", "\u00A0", "\u2003", "\u2028", "\u3000"}) {
    EXPECT_TRUE(matches("\\s", space)) << space;
    EXPECT_TRUE(matches("[x\\s]", space)) << space;
    EXPECT_FALSE(matches("\\S", space)) << space;
  }
  for (const char* other : {"a", "\u180E", "\u200B", "\uFEFF", "\x1F"}) {
    EXPECT_FALSE(matches("\\s", other)) << other;
    EXPECT_TRUE(matches("[^\\s]", other)) << other;
    EXPECT_TRUE(matches("\\S", other)) << other;
  }
}

TEST(PatternDialect, WordIsLettersMarksDecimalsAndConnectors) {
  for (const char* member : {"a", "7", "_", "\u00E9", "\u0301", "\u203F"})
    EXPECT_TRUE(matches("\\w", member)) << member;
  for (const char* other : {"-", " ", "\u00BD"}) EXPECT_TRUE(matches("\\W", other)) << other;
}

TEST(PatternDialect, BracketsAreFollowed) {
  EXPECT_TRUE(matches("[]\\s]+", "] ]"));
  EXPECT_TRUE(matches("[^]]+", "abc"));
  EXPECT_TRUE(matches("[\\[\\]]\\s", "[ "));
  EXPECT_TRUE(matches("\\\\\\s", "\\ "));
}

TEST(PatternDialect, RefusesWhatWouldMeanSomethingElse) {
  for (const char* pattern : {"[a[bc]]", "[a&&b]", "\\h", "\\H", "\\bx", "x\\B", "[\\S]", "[^\\W]"}) {
    try {
      (void)pcre2_from_oniguruma(pattern, "pattern 3");
      ADD_FAILURE() << pattern << " was accepted";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("pattern 3: the pattern \""), std::string::npos)
          << error.what();
      EXPECT_NE(std::string(error.what()).find("not supported"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace baleen
