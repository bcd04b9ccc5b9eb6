// Files that appear whole or not at all.
#include "base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <functional>

#include "base/error.h"
#include "tests/support/temporary_folder.h"

namespace baleen {
namespace {

namespace fs = std::filesystem;

std::int64_t num_files(const fs::path& folder) {
  return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
}

std::string sentence(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(MappedFile, TakesRegularFilesAloneAndNeverWaits) {
  const test::TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_NE(sentence([&] { MappedFile file(folder / "pipe"); }).find("not a regular file but a pipe"),
            std::string::npos);
  EXPECT_NE(sentence([&] { MappedFile file("/dev/zero"); }).find("not a regular file but a device"),
            std::string::npos);
  EXPECT_NE(sentence([&] { MappedFile file(folder.path()); }).find("not a regular file but a folder"),
            std::string::npos);
}

TEST(ReadTextFile, IsBounded) {
  const test::TemporaryFolder folder;
  std::ofstream(folder / "ten") << "0123456789";
  EXPECT_EQ(read_text_file(folder / "ten", 10), "0123456789");
  EXPECT_NE(sentence([&] { static_cast<void>(read_text_file(folder / "ten", 9)); }), "");
}

TEST(AtomicFileWriter, DoesNotWaitForThatAPipeIsRead) {
  const test::TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_NE(sentence([&] { AtomicFileWriter writer(folder / "pipe"); }).find("cannot open for writing"),
            std::string::npos);
}

TEST(AtomicFileWriter, AppearsAtCommit) {
  const test::TemporaryFolder folder;
  AtomicFileWriter writer(folder / "a.txt");
  writer.write("one ");
  EXPECT_FALSE(fs::exists(folder / "a.txt"));
  writer.write("two");
  writer.commit();
  EXPECT_EQ(read_text_file(folder / "a.txt"), "one two");
  EXPECT_EQ(num_files(folder.path()), 1);
}

TEST(AtomicFileWriter, AKilledProgramLeavesNothing) {
  const test::TemporaryFolder folder;
  const int unnamed = ::open(folder.path().c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
  if (unnamed < 0) GTEST_SKIP() << "this file system has no files without a name";
  ::close(unnamed);
  const pid_t child = ::fork();
  if (child == 0) {
    AtomicFileWriter writer(folder / "a.txt");
    writer.write("half");
    ::kill(::getpid(), SIGKILL);
  }
  ASSERT_GT(child, 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(num_files(folder.path()), 0);
}

TEST(AtomicFileWriter, ANameThatIsTakenIsPassedOver) {
  const test::TemporaryFolder folder;
  std::ofstream(folder / ("a.txt.tmp-" + std::to_string(::getpid()) + "-0")) << "left by another";
  AtomicFileWriter writer(folder / "a.txt");
  writer.write("whole");
  writer.commit();
  EXPECT_EQ(read_text_file(folder / "a.txt"), "whole");
  EXPECT_EQ(num_files(folder.path()), 2);
}

TEST(AtomicFileWriter, WithoutCommitLeavesWhatWasThere) {
  const test::TemporaryFolder folder;
  std::ofstream(folder / "a.txt") << "earlier";
  {
    AtomicFileWriter writer(folder / "a.txt");
    writer.write("later");
  }
  EXPECT_EQ(read_text_file(folder / "a.txt"), "earlier");
  EXPECT_EQ(num_files(folder.path()), 1);
}

TEST(AtomicFileWriter, ASymbolicLinkStaysOne) {
  const test::TemporaryFolder folder;
  std::ofstream(folder / "real.txt") << "earlier";
  fs::create_symlink("real.txt", folder / "link.txt");
  AtomicFileWriter writer(folder / "link.txt");
  writer.write("later");
  writer.commit();
  EXPECT_TRUE(fs::is_symlink(folder / "link.txt"));
  EXPECT_EQ(read_text_file(folder / "real.txt"), "later");
}

TEST(AtomicFileWriter, APipeTakesBytesAsTheyCome) {
  const test::TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::fstream reader(folder / "pipe",
                      std::ios::in | std::ios::out);  // both ends, so that opening does not wait
  AtomicFileWriter writer(folder / "pipe");
  writer.write("line\n");
  writer.commit();
  std::string line;
  std::getline(reader, line);
  EXPECT_EQ(line, "line");
  EXPECT_TRUE(fs::is_fifo(folder / "pipe"));
  EXPECT_EQ(num_files(folder.path()), 1);
}

TEST(AtomicFileWriter, AFullDiskHasItsSentence) {
  if (!fs::is_character_file("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  EXPECT_NE(sentence([] {
              AtomicFileWriter writer("/dev/full");
              writer.write("x");
            }).find("No space left"),
            std::string::npos);
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST(AtomicFileWriter, PlacesThatCannotBeWritten) {
  const test::TemporaryFolder folder;
  EXPECT_NE(
      sentence([&] { AtomicFileWriter writer(folder / "missing" / "a.txt"); }).find("does the folder exist"),
      std::string::npos);
  EXPECT_NE(sentence([&] { AtomicFileWriter writer(folder.path()); }).find("is a folder"), std::string::npos);
}

TEST(MappedFile, OnlyRegularFiles) {
  const test::TemporaryFolder folder;
  EXPECT_NE(sentence([&] { MappedFile file(folder / "absent"); }).find("cannot open"), std::string::npos);
  EXPECT_NE(sentence([&] { MappedFile file(folder.path()); }).find("not a regular file"), std::string::npos);
  std::ofstream(folder / "empty");
  EXPECT_TRUE(MappedFile(folder / "empty").bytes().empty());
}

TEST(ReadTextFile, RefusesMoreThanTheLimit) {
  const test::TemporaryFolder folder;
  std::ofstream(folder / "five") << "12345";
  EXPECT_EQ(read_text_file(folder / "five", 5), "12345");
  EXPECT_NE(
      sentence([&] { static_cast<void>(read_text_file(folder / "five", 4)); }).find("5 bytes, at most 4"),
      std::string::npos);
}

}  // namespace
}  // namespace baleen
