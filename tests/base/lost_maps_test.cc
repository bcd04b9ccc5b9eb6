// A mapped file that is cut short: its reader goes on with zeros, and nothing that was made of it is
// published. What is lost stays lost, so this test is a program of its own.
#include "base/lost_maps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "tests/support/temporary_folder.h"

namespace baleen {
namespace {

TEST(LostMaps, ReadAsZerosAndStopWhateverWouldBePublished) {
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder / "weights";
  std::ofstream(path) << std::string(100'000, 'w');
  const MappedFile whole(folder / "weights");
  std::optional<MappedFile> gone(folder / "weights");
  gone.reset();  // a map that is no more takes no part
  EXPECT_EQ(static_cast<char>(whole.bytes()[99'999]), 'w');
  EXPECT_NO_THROW(check_maps());

  std::filesystem::resize_file(path, 5000);
  EXPECT_EQ(std::ranges::count(whole.bytes().subspan(8192), std::byte{0}), 100'000 - 8192);
  AtomicFileWriter writer(folder / "result");
  writer.write("made of zeros");
  for (int i = 0; i < 2; ++i) {
    try {
      check_maps();
      ADD_FAILURE();
    } catch (const LostDevice& lost) {
      EXPECT_NE(std::string(lost.what()).find(path.string()), std::string::npos) << lost.what();
    }
  }
  EXPECT_THROW(writer.commit(), Error);
  EXPECT_FALSE(std::filesystem::exists(folder / "result"));
  EXPECT_THROW(read_text_file(path), Error);
}

TEST(LostMapsDeathTest, OtherBusErrorsEndTheProcessAsBefore) {
  EXPECT_EXIT(raise(SIGBUS), testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace baleen
