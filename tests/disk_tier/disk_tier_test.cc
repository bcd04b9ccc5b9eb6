// What the tier promises about its folder: restarts, damage, budget, queue, a disk that fails, a process that
// is killed.
#include "disk_tier/disk_tier.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "test_pages.h"
#include "tests/support/temporary_folder.h"

namespace baleen {
namespace {

namespace fs = std::filesystem;
using test::same_content;
using test::TestPage;

class DiskTierTest : public testing::Test {
 protected:
  DiskTierTest() {
    options.folder = folder / "cache";
    options.budget_bytes = 1 << 20;
    options.fingerprint = "model";
    options.page_bytes = 2000;
    options.window_page_bytes = 5000;
  }

  PageFileShape shape() const {
    return {.root = root_key(options.fingerprint),
            .page_bytes = options.page_bytes,
            .window_page_bytes = options.window_page_bytes};
  }
  TestPage page(std::uint32_t number, bool with_window = true) const {
    return test::test_page(number, shape(), with_window);
  }

  /// A tier over the folder; the one before must be gone.
  std::unique_ptr<DiskTier> open() {
    return std::make_unique<DiskTier>(options, [this](const std::string& warning) {
      const std::lock_guard lock(mutex_);
      warnings_.push_back(warning);
    });
  }
  static bool store(DiskTier& tier, const TestPage& page) {
    return tier.store(page.key, page.tokens, page.content.page, page.content.window);
  }
  static bool loads(DiskTier& tier, const TestPage& page) {
    const std::optional<StoredPage> loaded = tier.load(page.key, page.tokens);
    EXPECT_TRUE(!loaded || same_content(*loaded, page.content));
    return loaded.has_value();
  }
  void store_pages(std::uint32_t count) {
    const auto tier = open();
    for (std::uint32_t number = 0; number < count; ++number) {
      EXPECT_TRUE(store(*tier, page(number)));
      tier->flush();
    }
  }

  fs::path path_of(const TestPage& page) const {
    const std::string name = to_hex(page.key);
    return options.folder / name.substr(0, 2) / (name + ".page");
  }
  std::vector<std::string> warnings() {
    const std::lock_guard lock(mutex_);
    return warnings_;
  }

  test::TemporaryFolder folder;
  DiskTierOptions options;

 private:
  std::mutex mutex_;
  std::vector<std::string> warnings_;
};

TEST_F(DiskTierTest, WhatIsStoredIsLoaded) {
  const auto tier = open();
  const TestPage whole = page(1), without_window = page(2, false);
  EXPECT_EQ(tier->presence(whole.key), DiskTier::Presence::kAbsent);
  EXPECT_FALSE(loads(*tier, whole));
  EXPECT_TRUE(store(*tier, whole));
  EXPECT_TRUE(store(*tier, without_window));
  EXPECT_TRUE(loads(*tier, whole));  // from the queue or the disk
  tier->flush();
  EXPECT_EQ(tier->presence(whole.key), DiskTier::Presence::kPageAndWindow);
  EXPECT_EQ(tier->presence(without_window.key), DiskTier::Presence::kPage);
  EXPECT_TRUE(loads(*tier, whole));
  EXPECT_TRUE(loads(*tier, without_window));
  const DiskTierStats stats = tier->stats();
  EXPECT_EQ(stats.num_files, 2);
  EXPECT_EQ(stats.written_pages, 2);
  EXPECT_EQ(stats.read_pages, 3);
  EXPECT_EQ(stats.queued_pages, 0);
  EXPECT_EQ(stats.queued_bytes, 0);
  EXPECT_EQ(stats.file_bytes, static_cast<std::int64_t>(fs::file_size(path_of(whole)) +
                                                        fs::file_size(path_of(without_window))));
  EXPECT_TRUE(warnings().empty());
}

TEST_F(DiskTierTest, FilesAreForTheirOwnerAlone) {
  store_pages(1);
  EXPECT_EQ(fs::status(options.folder).permissions(), fs::perms::owner_all);
  EXPECT_EQ(fs::status(path_of(page(0))).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(DiskTierTest, ARestartFindsEverything) {
  store_pages(10);
  const auto tier = open();
  EXPECT_EQ(tier->stats().num_files, 10);
  for (std::uint32_t number = 0; number < 10; ++number) EXPECT_TRUE(loads(*tier, page(number)));
  EXPECT_TRUE(warnings().empty());
}

TEST_F(DiskTierTest, TheEndWritesWhatIsQueued) {
  {
    const auto tier = open();
    for (std::uint32_t number = 0; number < 20; ++number) EXPECT_TRUE(store(*tier, page(number)));
  }
  EXPECT_EQ(open()->stats().num_files, 20);
}

TEST_F(DiskTierTest, WindowRowsAreAddedNeverLost) {
  const auto tier = open();
  const TestPage whole = page(1), without_window = page(1, false);
  EXPECT_TRUE(store(*tier, without_window));
  tier->flush();
  EXPECT_TRUE(store(*tier, whole));
  tier->flush();
  EXPECT_TRUE(store(*tier, without_window));  // there is more already
  tier->flush();
  EXPECT_EQ(tier->stats().written_pages, 2);
  EXPECT_EQ(tier->stats().num_files, 1);
  EXPECT_TRUE(loads(*tier, whole));
}

TEST_F(DiskTierTest, OtherTokensOrAnotherModelGetNothing) {
  store_pages(1);
  const auto tier = open();
  TestPage other = page(0);
  other.key = page_key(root_key("another model"), other.tokens);
  EXPECT_FALSE(loads(*tier, other));
  EXPECT_TRUE(loads(*tier, page(0)));
}

TEST_F(DiskTierTest, FilesOfAnotherModelStayUntilTheyAreTheOldest) {
  store_pages(3);
  options.fingerprint = "another model";
  options.budget_bytes = 3 * 8300;
  const auto tier = open();
  EXPECT_EQ(tier->stats().num_files, 3);
  ASSERT_EQ(warnings().size(), 1U);
  EXPECT_NE(warnings()[0].find("3 of its 3 pages are of other models"), std::string::npos) << warnings()[0];
  EXPECT_TRUE(store(*tier, page(0)));
  tier->flush();
  EXPECT_EQ(tier->stats().num_files, 3);
  EXPECT_EQ(tier->stats().evicted_files, 1);
  EXPECT_TRUE(loads(*tier, page(0)));
}

TEST_F(DiskTierTest, DamagedFilesAreRemovedWithOneWarningEach) {
  constexpr std::uint32_t kPages = 40;
  store_pages(kPages);
  std::mt19937 random(1);
  for (std::uint32_t number = 0; number < kPages; ++number) {
    const fs::path path = path_of(page(number));
    const auto size = fs::file_size(path);
    if (number % 2 == 0) {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      const auto at = static_cast<std::streamoff>(random() % size);
      file.seekg(at);
      const char flipped = static_cast<char>(file.get() ^ (1 << (random() % 8)));
      file.seekp(at);
      file.put(flipped);
    } else {
      fs::resize_file(path, random() % size);
    }
  }
  const auto tier = open();
  for (std::uint32_t number = 0; number < kPages; ++number) {
    for (int again = 0; again < 2; ++again) EXPECT_FALSE(loads(*tier, page(number)));
    EXPECT_EQ(tier->presence(page(number).key), DiskTier::Presence::kAbsent);
    EXPECT_FALSE(fs::exists(path_of(page(number))));
  }
  EXPECT_EQ(tier->stats().rejected_files, kPages);
  EXPECT_EQ(tier->stats().num_files, 0);
  EXPECT_EQ(tier->stats().file_bytes, 0);
  EXPECT_EQ(warnings().size(), kPages);
}

TEST_F(DiskTierTest, DamageWhileRunningIsNoticed) {
  const auto tier = open();
  for (const std::uint32_t number : {1U, 2U, 3U}) EXPECT_TRUE(store(*tier, page(number)));
  tier->flush();
  fs::remove(path_of(page(1)));
  fs::remove(path_of(page(2)));
  fs::copy_file(path_of(page(3)), path_of(page(2)));  // a sound file under another's name
  EXPECT_FALSE(loads(*tier, page(1)));
  EXPECT_FALSE(loads(*tier, page(2)));
  EXPECT_TRUE(loads(*tier, page(3)));
  ASSERT_EQ(warnings().size(), 2U);
  EXPECT_NE(warnings()[0].find("it cannot be opened: No such file"), std::string::npos) << warnings()[0];
  EXPECT_NE(warnings()[1].find("it holds the page " + to_hex(page(3).key)), std::string::npos);
  EXPECT_TRUE(store(*tier, page(1)));  // and may come again
  tier->flush();
  EXPECT_TRUE(loads(*tier, page(1)));
}

TEST_F(DiskTierTest, WhatTookThePlaceOfAPageIsNeitherReadNorWaitedFor) {
  const auto tier = open();
  for (const std::uint32_t number : {1U, 2U, 3U}) EXPECT_TRUE(store(*tier, page(number)));
  tier->flush();
  fs::remove(path_of(page(1)));
  ASSERT_EQ(::mkfifo(path_of(page(1)).c_str(), 0600), 0);  // opening it would wait for a writer
  std::error_code refused;                                 // not every file system has sparse files
  fs::resize_file(path_of(page(2)), std::uintmax_t{1} << 40, refused);
  EXPECT_FALSE(loads(*tier, page(1)));
  EXPECT_EQ(loads(*tier, page(2)), static_cast<bool>(refused));
  EXPECT_TRUE(loads(*tier, page(3)));
  EXPECT_NE(warnings()[0].find("it is no regular file"), std::string::npos) << warnings()[0];
}

TEST_F(DiskTierTest, WhatIsNotTheCachesIsLeftAlone) {
  store_pages(1);
  const fs::path subfolder = path_of(page(0)).parent_path();
  const std::string elsewhere = std::string(32, subfolder.filename() == "00" ? '1' : '0') + ".page";
  const std::vector<fs::path> foreign = {options.folder / "notes.txt", subfolder / "notes.txt",
                                         subfolder / elsewhere, options.folder / "zz"};
  for (const fs::path& path : foreign) std::ofstream(path) << "mine";
  fs::create_symlink("/etc/hostname", subfolder / (to_hex(page(0).key).substr(0, 31) + "x.page"));
  const auto tier = open();
  for (const fs::path& path : foreign) EXPECT_TRUE(fs::exists(path));
  EXPECT_EQ(tier->stats().num_files, 1);
  EXPECT_EQ(tier->stats().rejected_files, 0);
  ASSERT_EQ(warnings().size(), 1U);
  EXPECT_NE(warnings()[0].find("5 of its entries are not the cache's"), std::string::npos) << warnings()[0];
}

TEST_F(DiskTierTest, LeftoversOfAKilledProcessAreRemoved) {
  store_pages(1);
  const fs::path leftover = path_of(page(0)).string() + ".new";
  std::ofstream(leftover) << "half of a page";
  const auto tier = open();
  EXPECT_FALSE(fs::exists(leftover));
  EXPECT_TRUE(loads(*tier, page(0)));
  EXPECT_TRUE(warnings().empty());
}

TEST_F(DiskTierTest, TheLeastRecentlyUsedGoFirstAlsoAfterARestart) {
  store_pages(6);
  const auto file_bytes = static_cast<std::int64_t>(fs::file_size(path_of(page(0))));
  {
    const auto tier = open();
    EXPECT_TRUE(loads(*tier, page(0)));
    EXPECT_TRUE(store(*tier, page(2)));  // counts as use though it is there
  }
  options.budget_bytes = 3 * file_bytes + file_bytes / 2;
  {
    const auto tier = open();
    EXPECT_EQ(tier->stats().evicted_files, 3);
    for (const std::uint32_t number : {1U, 3U, 4U}) EXPECT_FALSE(loads(*tier, page(number)));
    for (const std::uint32_t number : {5U, 0U, 2U}) EXPECT_TRUE(loads(*tier, page(number)));
  }
  const auto tier = open();
  EXPECT_TRUE(store(*tier, page(7)));
  tier->flush();
  EXPECT_LE(tier->stats().file_bytes, options.budget_bytes);
  EXPECT_FALSE(loads(*tier, page(5)));
  for (const std::uint32_t number : {0U, 2U, 7U}) EXPECT_TRUE(loads(*tier, page(number)));
  EXPECT_TRUE(warnings().empty());
}

TEST_F(DiskTierTest, APageBeyondTheBudgetIsDropped) {
  options.budget_bytes = 1000;
  const auto tier = open();
  EXPECT_TRUE(store(*tier, page(1)));
  tier->flush();
  EXPECT_EQ(tier->stats().dropped_pages, 1);
  EXPECT_EQ(tier->presence(page(1).key), DiskTier::Presence::kAbsent);
  EXPECT_EQ(warnings().size(), 1U);
}

TEST_F(DiskTierTest, TheQueueIsBounded) {
  options.max_queued_bytes = 3 * 7000 + 100;
  const auto tier = open();
  std::int64_t stored = 0;
  for (std::uint32_t number = 0; number < 200; ++number) {
    if (store(*tier, page(number))) ++stored;
    EXPECT_LE(tier->stats().queued_bytes, options.max_queued_bytes);
  }
  tier->flush();
  EXPECT_EQ(tier->stats().written_pages, stored);
  EXPECT_EQ(tier->stats().dropped_pages, 200 - stored);
  EXPECT_TRUE(warnings().empty());
}

TEST_F(DiskTierTest, APageLargerThanTheQueueIsDropped) {
  options.max_queued_bytes = 6999;
  const auto tier = open();
  EXPECT_FALSE(store(*tier, page(1)));
  EXPECT_TRUE(store(*tier, page(1, false)));
  EXPECT_EQ(tier->stats().dropped_pages, 1);
}

TEST_F(DiskTierTest, PoliciesChooseWindowRows) {
  const auto chosen = [&](WindowPolicy policy) {
    options.window_policy = policy;
    options.checkpoint_pages = 4;
    const auto tier = open();
    std::string picture;
    for (std::int64_t i = 0; i < 10; ++i) picture += tier->wants_window(i, i == 9) ? 'w' : '.';
    return picture;
  };
  EXPECT_EQ(chosen(WindowPolicy::kAll), "wwwwwwwwww");
  EXPECT_EQ(chosen(WindowPolicy::kCheckpoints), "...w...w.w");
  EXPECT_EQ(chosen(WindowPolicy::kNone), "..........");
}

TEST_F(DiskTierTest, AFolderHasOneOwner) {
  const auto tier = open();
  try {
    (void)open();
    FAIL() << "a second owner";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("another process uses this cache folder"), std::string::npos);
  }
}

TEST_F(DiskTierTest, AFileIsNoFolder) {
  std::ofstream(options.folder) << "a file";
  EXPECT_THROW((void)open(), Error);
  options.folder /= "below";
  EXPECT_THROW((void)open(), Error);
}

TEST_F(DiskTierTest, AFullDiskDropsPagesAndRecovers) {
  const auto tier = open();
  EXPECT_TRUE(store(*tier, page(1)));
  tier->flush();

  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto previous_handler = ::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 3000, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  for (const std::uint32_t number : {2U, 3U}) EXPECT_TRUE(store(*tier, page(number)));
  tier->flush();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, previous_handler);

  EXPECT_EQ(tier->stats().dropped_pages, 2);
  ASSERT_EQ(warnings().size(), 1U);
  EXPECT_NE(warnings()[0].find("cannot be written: File too large; pages are dropped"), std::string::npos);
  EXPECT_FALSE(fs::exists(path_of(page(2)).string() + ".new"));
  EXPECT_FALSE(loads(*tier, page(2)));
  EXPECT_TRUE(loads(*tier, page(1)));

  EXPECT_TRUE(store(*tier, page(2)));
  tier->flush();
  EXPECT_TRUE(loads(*tier, page(2)));
  ASSERT_EQ(warnings().size(), 2U);
  EXPECT_NE(warnings()[1].find("writing works again"), std::string::npos);
}

TEST_F(DiskTierTest, AFolderThatVanishesIsSurvived) {
  const auto tier = open();
  EXPECT_TRUE(store(*tier, page(1)));
  tier->flush();
  fs::remove_all(options.folder);
  EXPECT_TRUE(store(*tier, page(2)));
  tier->flush();
  EXPECT_FALSE(loads(*tier, page(1)));
  EXPECT_FALSE(loads(*tier, page(2)));
  EXPECT_EQ(tier->stats().dropped_pages, 1);
}

// Loads while the writer writes and evicts: for the thread sanitizer, and for the races between names and
// contents.
TEST_F(DiskTierTest, LoadsAndWritesMeet) {
  options.budget_bytes = 10 * 8300;
  const auto tier = open();
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    const TestPage chosen = page(static_cast<std::uint32_t>(random() % 20));
    if (random() % 2 == 0) {
      (void)store(*tier, chosen);
    } else {
      (void)loads(*tier, chosen);
    }
  }
  tier->flush();
  EXPECT_LE(tier->stats().file_bytes, options.budget_bytes);
  EXPECT_EQ(tier->stats().rejected_files, 0);
  EXPECT_TRUE(warnings().empty());
}

// A child stores pages until it is killed; whatever the next process can load is right.
TEST_F(DiskTierTest, AKilledProcessLeavesWholePages) {
  options.budget_bytes = 64 << 20;
  options.page_bytes = 50'000;
  options.window_page_bytes = 100'000;
  constexpr std::uint32_t kPages = 32;
  std::mt19937 random(7);
  for (int round = 0; round < 6; ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      DiskTier tier(options, [](const std::string&) {});
      for (std::uint32_t number = 0;; number = (number + 1) % kPages) {
        const TestPage next = page(number);
        tier.store(next.key, next.tokens, next.content.page, next.content.window);
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20 + random() % 60));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));

    const auto tier = open();
    EXPECT_EQ(tier->stats().rejected_files, 0);
    std::int64_t loaded = 0;
    for (std::uint32_t number = 0; number < kPages; ++number) loaded += loads(*tier, page(number)) ? 1 : 0;
    EXPECT_EQ(loaded, tier->stats().num_files);
    for (const auto& entry : fs::recursive_directory_iterator(options.folder)) {
      EXPECT_NE(entry.path().extension(), ".new");
    }
    // Half of the pages go, so that the next child has something to write.
    for (std::uint32_t number = round % 2; number < kPages; number += 2) fs::remove(path_of(page(number)));
  }
}

}  // namespace
}  // namespace baleen
