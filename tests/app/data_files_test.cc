#include "app/data_files.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temporary_folder.h"

namespace baleen {
namespace {

namespace fs = std::filesystem;

class DataFiles : public testing::Test {
 protected:
  fs::path make(const fs::path& name) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << "x";
    return folder_ / name;
  }
  const test::TemporaryFolder folder_;
};

TEST_F(DataFiles, OfAnInstalledProgramAreUnderItsPrefix) {
  const fs::path model = make("usr/share/baleen/models/stories/config.json").parent_path();
  EXPECT_EQ(data_file_of(folder_ / "usr/bin/baleen", "models/stories"), model);
}

TEST_F(DataFiles, OfABuildAreInItsCheckout) {
  const fs::path model = make("code/models/stories/config.json").parent_path();
  make("code/src/app/data_files.h");
  EXPECT_EQ(data_file_of(folder_ / "code/build/release/src/app/baleen", "models/stories"), model);
  EXPECT_EQ(data_file_of(folder_ / "code/out/baleen", "models/stories"), model);
}

TEST_F(DataFiles, OfAnotherProjectAroundTheProgramAreNotOurs) {
  make("project/models/stories/config.json");
  EXPECT_EQ(data_file_of(folder_ / "project/tools/bin/baleen", "models/stories"),
            folder_ / "project/tools/share/baleen/models/stories");
}

}  // namespace
}  // namespace baleen
