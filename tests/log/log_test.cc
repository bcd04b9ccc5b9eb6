// A log never stops who logs: full disks, closed descriptors, pipes that are broken or not read.
#include "log/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <iterator>
#include <string>

#include "log/log_thread.h"
#include "tests/support/temporary_folder.h"

namespace baleen {
namespace {

class Log : public testing::Test {
 protected:
  void SetUp() override {
    ::signal(SIGPIPE, SIG_IGN);
    ::signal(SIGXFSZ, SIG_IGN);
    ASSERT_EQ(::pipe2(pipe_.data(), O_CLOEXEC), 0);
  }
  void TearDown() override {
    for (const int end : pipe_)
      if (end >= 0) ::close(end);
  }
  void close_end(int which) { ::close(std::exchange(pipe_[which], -1)); }
  /// All that can be read after the writing end has been closed.
  std::string read_all() {
    close_end(1);
    std::string text;
    char bytes[4096];
    for (ssize_t count = 0; (count = ::read(pipe_[0], bytes, sizeof(bytes))) > 0;)
      text.append(bytes, static_cast<std::size_t>(count));
    return text;
  }

  std::array<int, 2> pipe_{};
};

TEST_F(Log, LinesComeInOrderAndEscaped) {
  const std::int64_t lost_before = lost_log_lines();
  {
    const LogThread log(pipe_[1]);
    log_line("first");
    log_line("{} {}", "second\n2026-01-01 200 forged", 2);
    log_lines("third\nfourth\n");
  }
  EXPECT_EQ(read_all(), "first\nsecond\\n2026-01-01 200 forged 2\nthird\nfourth\n");
  EXPECT_EQ(lost_log_lines(), lost_before);
}

TEST_F(Log, ALongLineIsCut) {
  {
    const LogThread log(pipe_[1]);
    log_line(std::string(1 << 20, 'x'));
  }
  const std::string text = read_all();
  EXPECT_LT(text.size(), kMaxLogLineBytes);
  EXPECT_NE(text.find("bytes more)\n"), std::string::npos);
}

TEST_F(Log, APipeThatIsNotReadCostsLinesAndSaysSoLater) {
  const std::int64_t lost_before = lost_log_lines();
  const std::string line(1000, 'x');
  std::string read;
  {
    const LogThread log(pipe_[1], 64 << 10);
    // The pipe takes 64 KiB and the queue as much; the caller never waits.
    for (int i = 0; i < 1000; ++i) log_line(line);
    EXPECT_GT(lost_log_lines(), lost_before + 500);
    char bytes[4096];
    while (read.find("after") == std::string::npos) {
      const ssize_t count = ::read(pipe_[0], bytes, sizeof(bytes));
      ASSERT_GT(count, 0);
      read.append(bytes, static_cast<std::size_t>(count));
      log_line("after");  // lost as well, until there is room
    }
  }
  // A line of x may have found room between the report and the first "after".
  EXPECT_LT(read.find("lines of this log were lost: it was not read fast enough\n"), read.find("after"));
}

TEST_F(Log, AnUnreadPipeDoesNotHoldUpTheEnd) {
  {
    const LogThread log(pipe_[1], 64 << 10);
    for (int i = 0; i < 1000; ++i) log_line(std::string(1000, 'x'));
  }
  SUCCEED();
}

TEST_F(Log, ABrokenPipeAndAClosedDescriptorCostLinesOnly) {
  const std::int64_t lost_before = lost_log_lines();
  close_end(0);
  {
    const LogThread log(pipe_[1]);
    for (int i = 0; i < 10; ++i) log_line("into the void");
  }
  EXPECT_EQ(lost_log_lines(), lost_before + 10);
  const int closed = pipe_[1];
  close_end(1);
  {
    const LogThread log(closed);
    log_line("nowhere");
  }
  EXPECT_EQ(lost_log_lines(), lost_before + 11);
}

TEST_F(Log, AFullDiskIsReportedOnceThereIsRoom) {
  const test::TemporaryFolder folder;
  const int file = ::open((folder / "log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  ASSERT_GE(file, 0);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  {
    const LogThread log(file);
    log_line("before");
    const rlimit small{.rlim_cur = 10, .rlim_max = before.rlim_max};
    const std::int64_t lost_before = lost_log_lines();
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    for (int i = 0; i < 20 || lost_log_lines() == lost_before; ++i) {
      log_line("does not fit");
      ::usleep(1000);
      ASSERT_LT(i, 10000);
    }
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    log_line("after");
  }
  ::close(file);
  std::ifstream stream(folder / "log");
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  EXPECT_NE(text.find("lines of this log were lost: writing failed"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("\nafter\n")) << text;
}

TEST(LogWithoutThread, ADescriptorThatCannotBeWrittenIsIgnored) {
  const int saved = ::dup(2), full = ::open("/dev/full", O_WRONLY);
  ::dup2(full, 2);
  log_line("there is no room for this");
  ::dup2(saved, 2);
  ::close(saved), ::close(full);
}

}  // namespace
}  // namespace baleen
