#include "server/api_keys.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "tests/support/temporary_folder.h"

namespace baleen {
namespace {

class ApiKeysTest : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& text) {
    const std::filesystem::path path = folder_ / "keys";
    std::ofstream(path) << text;
    return path;
  }
  test::TemporaryFolder folder_;
};

TEST_F(ApiKeysTest, WithoutKeysEveryoneIsAdmitted) {
  const ApiKeys keys;
  EXPECT_FALSE(keys.required());
  EXPECT_TRUE(keys.admits(""));
  EXPECT_TRUE(keys.admits("anything"));
}

TEST_F(ApiKeysTest, AdmitsExactlyTheKeysOfTheFile) {
  const ApiKeys keys(write("# for agents\nalpha\n\n  \nbeta-2  \r\n"));
  EXPECT_TRUE(keys.required());
  EXPECT_TRUE(keys.admits("alpha"));
  EXPECT_TRUE(keys.admits("beta-2"));
  for (const char* other : {"", "alph", "alphaa", "Alpha", "alpha ", "beta", "# for agents", "alpha\n"}) {
    EXPECT_FALSE(keys.admits(other)) << other;
  }
  EXPECT_FALSE(keys.admits(std::string_view("alpha\0", 6)));
}

TEST_F(ApiKeysTest, AFileWithoutKeysIsAMistake) {
  EXPECT_THROW(ApiKeys(write("# nothing\n")), Error);
  EXPECT_THROW(ApiKeys(folder_ / "absent"), Error);
}

TEST(PresentedKey, ComesFromEitherHeader) {
  EXPECT_EQ(presented_key("Bearer abc", ""), "abc");
  EXPECT_EQ(presented_key("bearer abc", "other"), "abc");
  EXPECT_EQ(presented_key("", "abc"), "abc");
  EXPECT_EQ(presented_key("Basic abc", "xyz"), "xyz");
  EXPECT_EQ(presented_key("Bearer ", ""), "");
}

}  // namespace
}  // namespace baleen
