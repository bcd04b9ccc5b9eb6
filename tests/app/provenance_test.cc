#include "app/provenance.h"

#include <gtest/gtest.h>

namespace baleen {
namespace {

TEST(Provenance, IsACommandThatAShellReadsBack) {
  EXPECT_EQ(shell_command({"build/release/src/app/baleen", "simulate", "flash", "--tp=4"}),
            "baleen simulate flash --tp=4");
  EXPECT_EQ(shell_command({"baleen", "a b", "it's", "", "$HOME", "*"}),
            R"(baleen 'a b' 'it'\''s' '' '$HOME' '*')");
}

TEST(Provenance, IsThisProcess) {
  EXPECT_TRUE(provenance().command.starts_with("app_tests")) << provenance().command;
  EXPECT_FALSE(provenance().revision.empty());
}

}  // namespace
}  // namespace baleen
