// A checkpoint's identity follows every byte of its files and its config, and nothing else; what is known of
// files is kept while they stay the same.
#include "model/identity.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <thread>

#include "model/presets.h"
#include "model_files/made_up.h"
#include "tests/support/random_checkpoint.h"
#include "tests/support/temporary_folder.h"

namespace baleen {
namespace {

namespace fs = std::filesystem;

ModelConfig two_layers() { return with_layers(preset_config("tiny-flash"), 2); }

struct Known {
  std::string digits;
  std::int64_t hashed_bytes = 0;
};
Known known(const Checkpoint& checkpoint, const fs::path& fallback = {}, int num_threads = 2) {
  ContentIdentity identity(checkpoint, fallback);
  const std::string digits = identity.compute({.num_threads = num_threads}).value();
  EXPECT_EQ(identity.hashed_bytes(), identity.bytes_to_hash());
  return {digits, identity.hashed_bytes()};
}
std::string identity(const ModelConfig& config, std::uint64_t seed) {
  const test::RandomCheckpoint checkpoint(config, seed);
  return known(Checkpoint(checkpoint.path())).digits;
}

/// A copy of a checkpoint, old enough that changes of it show.
class Copy {
 public:
  Copy() {
    static const test::RandomCheckpoint checkpoint(two_layers(), 1);
    fs::copy(checkpoint.path(), path(), fs::copy_options::recursive);
    fs::remove(digests());
    settle();
  }
  [[nodiscard]] fs::path path() const { return folder_.path() / "model"; }
  [[nodiscard]] fs::path digests() const { return path() / ".baleen-digests"; }
  [[nodiscard]] fs::path shard() const {
    for (const auto& entry : fs::directory_iterator(path())) {
      if (entry.path().extension() == ".safetensors") return entry.path();
    }
    return {};
  }
  [[nodiscard]] std::int64_t bytes() const {
    std::int64_t sum = 0;
    for (const MappedFile* file : Checkpoint(path()).files()) sum += file->version().size;
    return sum;
  }
  /// Until the clock of the file system has ticked.
  void settle() const {
    while (MappedFile(shard()).version().may_change_unseen()) std::this_thread::yield();
  }
  /// Flips a bit, and sets size and modification time as they were.
  void flip(std::int64_t from_end) const {
    const auto time = fs::last_write_time(shard());
    std::fstream file(shard(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-from_end, std::ios::end);
    const int byte = file.get();
    file.seekp(-from_end, std::ios::end);
    file.put(static_cast<char>(byte ^ 0x10));
    file.close();
    fs::last_write_time(shard(), time);
  }

 private:
  test::TemporaryFolder folder_;
};

TEST(ContentIdentity, TellsModelsApart) {
  const std::string one = identity(two_layers(), 1);
  EXPECT_EQ(one.size(), 32u);
  EXPECT_EQ(one, identity(two_layers(), 1));  // in another folder
  EXPECT_NE(one, identity(two_layers(), 2));
  ModelConfig other = two_layers();
  other.swiglu_limit = 7;
  EXPECT_NE(one, identity(other, 1));
}

TEST(ContentIdentity, FollowsEveryByte) {
  const Copy copy;
  const std::string before = known(Checkpoint(copy.path())).digits;
  const std::int64_t bytes = static_cast<std::int64_t>(fs::file_size(copy.shard()));
  for (const std::int64_t from_end :
       {std::int64_t{1}, std::int64_t{255}, bytes / 7, bytes / 2, bytes / 4 * 3}) {
    copy.flip(from_end);
    copy.settle();
    EXPECT_NE(known(Checkpoint(copy.path())).digits, before) << from_end;
    copy.flip(from_end);
    copy.settle();
    EXPECT_EQ(known(Checkpoint(copy.path())).digits, before) << from_end;
  }
}

TEST(ContentIdentity, DoesNotDependOnThreadsOrNames) {
  const Copy copy;
  const std::string before = known(Checkpoint(copy.path())).digits;
  for (const int threads : {1, 3, 16}) {
    fs::remove(copy.digests());
    EXPECT_EQ(known(Checkpoint(copy.path()), {}, threads).digits, before);
  }
}

TEST(ContentIdentity, FilesAreReadOnce) {
  const Copy copy;
  const Known first = known(Checkpoint(copy.path()));
  EXPECT_EQ(first.hashed_bytes, copy.bytes());
  EXPECT_TRUE(fs::exists(copy.digests()));
  const Known second = known(Checkpoint(copy.path()));
  EXPECT_EQ(second.hashed_bytes, 0);
  EXPECT_EQ(second.digits, first.digits);
  // Whatever happened to a file, it is read again: written to with its times put back, or touched.
  copy.flip(100);
  copy.settle();
  EXPECT_EQ(known(Checkpoint(copy.path())).hashed_bytes, copy.bytes());
  fs::last_write_time(copy.shard(), fs::last_write_time(copy.shard()) + std::chrono::hours(1));
  copy.settle();
  EXPECT_EQ(known(Checkpoint(copy.path())).hashed_bytes, copy.bytes());
  EXPECT_EQ(known(Checkpoint(copy.path())).hashed_bytes, 0);
}

TEST(ContentIdentity, KeptDigestsThatAreDamagedCountForNothing) {
  const Copy copy;
  const std::string want = known(Checkpoint(copy.path())).digits;
  const std::string kept = read_text_file(copy.digests());
  for (std::size_t i = 0; i < kept.size(); i += 3) {
    std::string damaged = kept;
    damaged[i] = damaged[i] == '1' ? '2' : '1';
    std::ofstream(copy.digests(), std::ios::binary) << damaged;
    EXPECT_EQ(known(Checkpoint(copy.path())).digits, want) << i;
    std::ofstream(copy.digests(), std::ios::binary) << kept.substr(0, i);
    EXPECT_EQ(known(Checkpoint(copy.path())).digits, want) << i;
  }
  EXPECT_EQ(read_text_file(copy.digests()), kept);  // written anew
}

TEST(ContentIdentity, DigestsGoElsewhereWhereTheFolderCannotBeWritten) {
  const Copy copy;
  const test::TemporaryFolder fallback;
  fs::create_directory(copy.digests());  // no file can have the name
  EXPECT_GT(known(Checkpoint(copy.path())).hashed_bytes, 0);
  EXPECT_GT(known(Checkpoint(copy.path())).hashed_bytes, 0);  // nowhere to keep it
  EXPECT_GT(known(Checkpoint(copy.path()), fallback.path()).hashed_bytes, 0);
  EXPECT_EQ(known(Checkpoint(copy.path()), fallback.path()).hashed_bytes, 0);
  const Copy other;
  fs::create_directory(other.digests());
  EXPECT_GT(known(Checkpoint(other.path()), fallback.path()).hashed_bytes, 0);
  EXPECT_EQ(known(Checkpoint(copy.path()), fallback.path()).hashed_bytes, 0);  // each its own
  fs::remove(copy.digests());
  ASSERT_EQ(::mkfifo(copy.digests().c_str(), 0600), 0);  // never waited for
  EXPECT_EQ(known(Checkpoint(copy.path()), fallback.path()).hashed_bytes, 0);
}

TEST(ContentIdentity, AFileThatIsNotTheMappedOneAnyMoreIsRefused) {
  const Copy copy;
  const Checkpoint checkpoint(copy.path());
  fs::copy_file(copy.shard(), copy.path() / "new");
  fs::rename(copy.path() / "new", copy.shard());  // the same bytes, but who knows
  ContentIdentity identity(checkpoint, {});
  EXPECT_THROW(static_cast<void>(identity.compute({})), Error);
}

TEST(ContentIdentity, StopsBetweenPieces) {
  const Copy copy;
  const Checkpoint checkpoint(copy.path());
  ContentIdentity identity(checkpoint, {});
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(identity.compute({.stop = stop.get_token()}), std::nullopt);
  EXPECT_EQ(identity.hashed_bytes(), 0);
}

/// Weights that are in memory alone: what they hold now.
TEST(ContentIdentity, OfWeightsInMemory) {
  ThreadPool pool(1);
  const auto identity = [&](std::uint64_t seed) {
    return known(made_up_weights(preset_config("tiny-flash"), seed, pool)->checkpoint()).digits;
  };
  EXPECT_EQ(identity(1), identity(1));
  EXPECT_NE(identity(1), identity(2));
}

TEST(SampledIdentity, TellsSeedsApart) {
  const auto sampled = [](std::uint64_t seed) {
    const test::RandomCheckpoint checkpoint(two_layers(), seed);
    return sampled_identity(Checkpoint(checkpoint.path()));
  };
  EXPECT_EQ(sampled(1), sampled(1));
  EXPECT_NE(sampled(1), sampled(2));
}

}  // namespace
}  // namespace baleen
