// Reasoning that clients carry.
#include "protocols/sealed_text.h"

#include <gtest/gtest.h>

namespace baleen {
namespace {

TEST(SealedText, OpensForItsKeyAlone) {
  for (const std::string& text : {std::string(), std::string("a"), std::string("sieben \xc3\xa4 bytes"),
                                  std::string(1000, 'x'), std::string("\0\n", 2)}) {
    const std::string sealed = seal_text(text, "key");
    EXPECT_EQ(sealed.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
              std::string::npos);
    EXPECT_EQ(open_sealed_text(sealed, "key"), text);
    EXPECT_FALSE(open_sealed_text(sealed, "other"));
    EXPECT_FALSE(open_sealed_text(sealed, ""));
  }
}

TEST(SealedText, EveryChangeIsFound) {
  const std::string sealed = seal_text("because of the fox", "key");
  for (std::size_t i = 0; i + 1 < sealed.size(); ++i) {  // the last digit has bits that carry nothing
    std::string changed = sealed;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    EXPECT_FALSE(open_sealed_text(changed, "key")) << i;
    EXPECT_FALSE(open_sealed_text(sealed.substr(0, i), "key")) << i;
  }
  EXPECT_FALSE(open_sealed_text("", "key"));
  EXPECT_FALSE(open_sealed_text("not base64!", "key"));
}

}  // namespace
}  // namespace baleen
