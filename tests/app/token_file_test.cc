// Files of token ids: what is a number, and where it is not.
#include "app/token_file.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "tests/support/temporary_folder.h"

namespace baleen {
namespace {

class TokenFile : public testing::Test {
 protected:
  [[nodiscard]] std::vector<TokenId> read(const std::string& text) const {
    std::ofstream(folder_ / "ids.txt") << text;
    return read_token_file(folder_ / "ids.txt");
  }
  [[nodiscard]] std::string refusal(const std::string& text) const {
    try {
      static_cast<void>(read(text));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  test::TemporaryFolder folder_;
};

TEST_F(TokenFile, SeparatedBySpacesCommasOrNewlines) {
  EXPECT_EQ(read("1 2,3\n4, 5\r\n\t6"), (std::vector<TokenId>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(read("\n 7 \n"), std::vector<TokenId>{7});
  EXPECT_EQ(read("-1"), std::vector<TokenId>{-1});  // whether it is in the vocabulary is the engine's to say
}

TEST_F(TokenFile, SaysWhatIsNoNumberAndWhere) {
  EXPECT_NE(refusal("1 2 three 4").find("\"three\" at byte 4"), std::string::npos);
  EXPECT_NE(refusal("1 2.5").find("\"2.5\" at byte 2"), std::string::npos);
  EXPECT_NE(refusal("99999999999").find("\"99999999999\""), std::string::npos);
  EXPECT_NE(refusal("[1, 2]").find("\"[1\""), std::string::npos);
  EXPECT_LT(refusal(std::string(100'000, 'x')).size(), 300u);  // quoted in part
}

TEST_F(TokenFile, AnEmptyFileHasNothingToSay) {
  EXPECT_NE(refusal("").find("no token ids"), std::string::npos);
  EXPECT_NE(refusal(" \n").find("no token ids"), std::string::npos);
}

}  // namespace
}  // namespace baleen
