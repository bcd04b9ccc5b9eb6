// Checkpoint folders: writer and reader agree, shards and index are checked, and an unfinished writer leaves
// nothing.
#include "checkpoint/checkpoint.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/checkpoint_writer.h"
#include "tests/support/temporary_folder.h"

namespace baleen {
namespace {

using test::TemporaryFolder;

const std::vector<TensorHeader> kTensors{
    {"embed", DType::kBF16, {10, 7}}, {"w.weight", DType::kI8, {64, 8}}, {"w.scale", DType::kF8E8M0, {64, 1}},
    {"scalar", DType::kF32, {}},      {"empty", DType::kF32, {0, 3}},    {"bias\"\\", DType::kF32, {3}}};
const TextFile kConfig{"config.json", "{}"};

std::vector<std::byte> content(const TensorHeader& tensor) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.size_bytes()));
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(i * 7 + tensor.name.size());
  return bytes;
}

void write_all(const std::filesystem::path& folder, std::int64_t max_shard_bytes) {
  CheckpointWriter writer(folder, kTensors, max_shard_bytes);
  for (const TensorHeader& tensor : writer.order()) {
    const auto bytes = content(tensor);
    const std::size_t half = bytes.size() / 2;
    writer.append(tensor.name, std::span(bytes).first(half));
    writer.append(tensor.name, std::span(bytes).subspan(half));
  }
  writer.finish(std::span(&kConfig, 1));
}

void expect_all(const Checkpoint& checkpoint) {
  EXPECT_EQ(checkpoint.tensors().size(), kTensors.size());
  for (const TensorHeader& tensor : kTensors) {
    const TensorInfo& found = checkpoint.at(tensor.name);
    EXPECT_EQ(found.type_text(), tensor.type_text());
    const auto want = content(tensor);
    EXPECT_TRUE(std::equal(want.begin(), want.end(), found.bytes.begin(), found.bytes.end())) << tensor.name;
  }
}

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

void put(const std::filesystem::path& path, const std::string& text) { std::ofstream(path) << text; }

std::string refusal(const std::filesystem::path& folder) {
  try {
    const Checkpoint checkpoint(folder);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Checkpoint, SingleFileRoundTrip) {
  const TemporaryFolder folder;
  write_all(folder / "out", 1'000'000);
  EXPECT_EQ(names_in(folder / "out"), (std::vector<std::string>{"config.json", "model.safetensors"}));
  expect_all(Checkpoint(folder / "out"));
}

TEST(Checkpoint, ShardedRoundTrip) {
  const TemporaryFolder folder;
  write_all(folder / "out", 600);
  const Checkpoint checkpoint(folder / "out");
  EXPECT_GT(checkpoint.num_files(), 1u);
  EXPECT_TRUE(checkpoint.unlisted().empty());
  expect_all(checkpoint);
  const std::string index = read_text_file(folder / "out" / kIndexFileName);
  EXPECT_NE(index.find("\"total_size\": 732"), std::string::npos) << index;
}

TEST(Checkpoint, MovedCheckpointKeepsItsTensors) {
  const TemporaryFolder folder;
  write_all(folder.path(), 600);
  Checkpoint first(folder.path());
  const Checkpoint second = std::move(first);
  expect_all(second);
  EXPECT_EQ(second.at("embed").file, (folder / "model-00001-of-00002.safetensors").string());
}

TEST(Checkpoint, TensorsAreAligned) {
  const TemporaryFolder folder;
  write_all(folder.path(), 1'000'000);
  const Checkpoint checkpoint(folder.path());
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    const auto address = reinterpret_cast<std::uintptr_t>(tensor.bytes.data());
    EXPECT_EQ(address % static_cast<std::uintptr_t>(dtype_bytes(tensor.dtype)), 0u) << tensor.name;
  }
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(checkpoint.at("w.weight").bytes.data()) % 64, 0u);
}

/// Whoever replaces a checkpoint writes the new one aside (model_files/staged_folder).
TEST(Checkpoint, WritingDeletesNothing) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path());
  put(folder / "other.safetensors", "unrelated");
  write_all(folder.path(), 1'000'000);
  EXPECT_EQ(names_in(folder.path()),
            (std::vector<std::string>{"config.json", "model.safetensors", "other.safetensors"}));
}

TEST(Checkpoint, FolderWithoutWeights) {
  const TemporaryFolder folder;
  EXPECT_NE(refusal(folder / "absent").find("no such folder"), std::string::npos);
  EXPECT_NE(refusal(folder.path()).find("no *.safetensors here"), std::string::npos);
}

TEST(Checkpoint, TheOnlyFileMayHaveAnyName) {
  const TemporaryFolder folder;
  write_all(folder.path(), 1'000'000);
  std::filesystem::rename(folder / "model.safetensors", folder / "other.safetensors");
  expect_all(Checkpoint(folder.path()));
  std::filesystem::copy(folder / "other.safetensors", folder / "another.safetensors");
  EXPECT_NE(refusal(folder.path()).find("2 *.safetensors files but no model.safetensors.index.json"),
            std::string::npos);
}

TEST(Checkpoint, IndexNamesAnAbsentFile) {
  const TemporaryFolder folder;
  write_all(folder.path(), 600);
  std::filesystem::remove(folder / "model-00002-of-00002.safetensors");
  EXPECT_NE(refusal(folder.path()).find("model-00002-of-00002.safetensors: absent, but"), std::string::npos);
}

TEST(Checkpoint, IndexPutsATensorInTheWrongFile) {
  const TemporaryFolder folder;
  write_all(folder.path(), 1'000'000);
  put(folder / kIndexFileName,
      R"({"weight_map": {"embed": "model.safetensors", "lost": "model.safetensors"}})");
  EXPECT_NE(refusal(folder.path()).find("no tensor \"lost\""), std::string::npos);
}

TEST(Checkpoint, TensorsOutsideTheIndexAreNamed) {
  const TemporaryFolder folder;
  write_all(folder.path(), 1'000'000);
  put(folder / kIndexFileName, R"({"weight_map": {"embed": "model.safetensors"}})");
  const Checkpoint checkpoint(folder.path());
  EXPECT_EQ(checkpoint.tensors().size(), 1u);
  EXPECT_EQ(checkpoint.unlisted().size(), kTensors.size() - 1);
  EXPECT_THROW(static_cast<void>(checkpoint.at("scalar")), Error);
}

TEST(Checkpoint, TruncatedShard) {
  const TemporaryFolder folder;
  write_all(folder.path(), 600);
  const auto shard = folder / "model-00001-of-00002.safetensors";
  std::filesystem::resize_file(shard, std::filesystem::file_size(shard) - 1);
  EXPECT_NE(refusal(folder.path()).find("is the file damaged"), std::string::npos);
}

TEST(Checkpoint, DamagedIndex) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "not valid JSON"},
      {"{", "not valid JSON"},
      {"[]", "expected \"weight_map\""},
      {"7", "expected \"weight_map\""},
      {"{}", "no \"weight_map\""},
      {R"({"weight_map": 3})", "expected \"weight_map\""},
      {R"({"weight_map": {"a": 3}})", "another value at \"a\""},
      {R"({"weight_map": {"a": {}}})", "another value at \"a\""},
      {R"({"weight_map": {"a": ["b"]}})", "another value at \"a\""},
      {R"({"weight_map": {"a": "../b"}})", "not a plain file name"},
      {R"({"weight_map": {"a": ""}})", "not a plain file name"},
      {R"({"weight_map": {"a": "b", "a": "b"}})", "listed twice"},
      {R"({"weight_map": {}, "weight_map": {}})", "appears twice"},
  };
  for (const auto& [text, expected] : cases) {
    try {
      static_cast<void>(parse_weight_map(text, "index"));
      ADD_FAILURE() << text << " accepted";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << text << ": " << error.what();
    }
  }
  const WeightMap map =
      parse_weight_map(R"({"metadata": {"x": [1, {"y": null}]}, "weight_map": {"a": "b"}})", "index");
  EXPECT_EQ(map, (WeightMap{{"a", "b"}}));
}

TEST(CheckpointWriter, UnfinishedLeavesNothing) {
  const TemporaryFolder folder;
  {
    CheckpointWriter writer(folder / "out", kTensors, 600);
    writer.append(writer.order().front().name, content(writer.order().front()));
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
  { CheckpointWriter writer(folder.path(), kTensors, 600); }
  EXPECT_TRUE(names_in(folder.path()).empty());
}

TEST(CheckpointWriter, RefusesWhatCannotBeWritten) {
  const TemporaryFolder folder;
  EXPECT_THROW(CheckpointWriter("/proc/baleen", kTensors, 600), Error);
  put(folder / "file", "");
  EXPECT_THROW(CheckpointWriter(folder / "file" / "out", kTensors, 600), Error);
  const std::vector<TensorHeader> huge{{"a", DType::kI8, {std::int64_t{1} << 60}}};
  EXPECT_THROW(CheckpointWriter(folder / "out", huge, INT64_MAX), Error);
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
  std::vector<TensorHeader> many;
  for (int i = 0; i < 600; ++i) many.push_back({std::to_string(i), DType::kI8, {1}});
  EXPECT_THROW(CheckpointWriter(folder / "out", many, 1), Error);
}

/// A child process whose files may not grow beyond a kilobyte stands for a full disk.
TEST(CheckpointWriter, AFullDiskLeavesNothing) {
  const TemporaryFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1024, 1024};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      write_all(folder / "out", 1'000'000);
    } catch (const Error& error) {
      ::_exit(std::string(error.what()).find("nothing was left behind") != std::string::npos ? 0 : 2);
    }
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
}

}  // namespace
}  // namespace baleen
