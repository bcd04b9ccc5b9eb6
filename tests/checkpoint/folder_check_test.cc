// What is no checkpoint folder has its sentence: names of the Hub, its cache, GGUF, LFS pointers,
// files.
#include "checkpoint/folder_check.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "tests/support/temporary_folder.h"

namespace baleen {
namespace {

namespace fs = std::filesystem;

const std::string kPointer =
    "version https://git-lfs.github.com/spec/v1\noid sha256:0123456789abcdef\nsize 4998123\n";

/// The beginning of a GGUF file of version 3 with one key.
std::string gguf(const std::string& architecture) {
  const auto number = [](std::uint64_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
    return text;
  };
  const std::string key = "general.architecture";
  return "GGUF" + number(3, 4) + number(0, 8) + number(1, 8) + number(key.size(), 8) + key + number(8, 4) +
         number(architecture.size(), 8) + architecture;
}

class FolderCheck : public testing::Test {
 protected:
  fs::path put(const fs::path& name, const std::string& text = "{}") const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }
  static std::string refusal(const fs::path& path) {
    try {
      check_checkpoint_folder(path);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }

  test::TemporaryFolder folder_;
};

TEST_F(FolderCheck, AConfigIsEnough) {
  put("model/config.json");
  EXPECT_EQ(refusal(folder_ / "model"), "");
  EXPECT_FALSE(has_tensor_files(folder_ / "model"));
  put("model/model.safetensors.index.json");
  EXPECT_FALSE(has_tensor_files(folder_ / "model"));
  put("model/model-00001-of-00002.safetensors", "x");
  EXPECT_TRUE(has_tensor_files(folder_ / "model"));
}

TEST_F(FolderCheck, NamesOfTheHub) {
  const std::string name = "deepseek-ai/DeepSeek-V4-Flash-0731";
  const std::string sentence =
      ": no such folder. It looks like a model on the Hugging Face Hub, and baleen downloads nothing: fetch "
      "its files "
      "(hf download deepseek-ai/DeepSeek-V4-Flash-0731 --local-dir FOLDER) and pass FOLDER";
  for (const std::string& path :
       {name, "https://huggingface.co/" + name, "https://huggingface.co/" + name + "/tree/main",
        "hf.co/" + name, "hf://" + name + "@main", "https://hf.co/" + name + "?x=1"})
    EXPECT_EQ(refusal(path), path + sentence);
  for (const std::string& path : {std::string("absent"), std::string("/absent/model"), std::string("./a/b"),
                                  std::string("../a/b"), std::string("a/b/c"), std::string("a/"),
                                  std::string("/"), std::string("a b/c"), std::string("models/absent")}) {
    const std::string found = refusal(path);
    EXPECT_EQ(found.find("Hub"), std::string::npos) << found;
  }
  EXPECT_EQ(
      refusal(folder_ / "absent"),
      path("absent") + ": no such folder; expected a checkpoint folder with config.json and *.safetensors");
}

TEST_F(FolderCheck, CachesOfTheHub) {
  const std::string root = "hub/models--deepseek-ai--DeepSeek-V4-Flash";
  put(root + "/snapshots/aaa/config.json");
  put(root + "/snapshots/bbb/config.json");
  put(root + "/refs/main", "aaa\n");
  EXPECT_EQ(refusal(folder_ / root), path(root) +
                                         ": the root of a Hub cache of deepseek-ai/DeepSeek-V4-Flash, not a "
                                         "checkpoint; pass its snapshot " +
                                         path(root + "/snapshots/aaa"));
  EXPECT_NE(
      refusal(folder_ / root / ".").find(": the root of a Hub cache of deepseek-ai/DeepSeek-V4-Flash, "),
      std::string::npos);  // as the folder that a shell is in
  EXPECT_NE(refusal(folder_ / "hub")
                .find("a Hub cache of several models, not a checkpoint; pass a snapshot of one, "
                      "as " +
                      path(root + "/snapshots/aaa")),
            std::string::npos)
      << refusal(folder_ / "hub");
  EXPECT_NE(refusal(folder_ / (root + "/snapshots")).find(": pass " + path(root + "/snapshots/aaa")),
            std::string::npos);
  put(root + "/refs/main", "gone");
  EXPECT_NE(refusal(folder_ / root).find("pass its snapshot " + path(root + "/snapshots/bbb")),
            std::string::npos);
  fs::remove_all(folder_ / (root + "/snapshots"));
  fs::create_directories(folder_ / (root + "/snapshots/ccc"));
  EXPECT_NE(
      refusal(folder_ / root).find("none of its snapshots has a config.json: is the download complete?"),
      std::string::npos);
}

TEST_F(FolderCheck, Gguf) {
  const fs::path file = put("gguf/model-Q8_0.gguf", gguf("deepseek4"));
  const std::string sentence =
      file.string() +
      ": a GGUF file, where this needs a checkpoint folder; `baleen convert FILE FOLDER` writes one";
  EXPECT_EQ(refusal(file), sentence);
  EXPECT_EQ(refusal(folder_ / "gguf"), sentence);
  put("gguf/config.json");  // as some repositories of GGUF files have
  try {
    const Checkpoint checkpoint(folder_ / "gguf");
    ADD_FAILURE() << "opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), sentence);
  }
  for (const std::string& text :
       {std::string("GGUF"), gguf(std::string(5000, 'x')), gguf("").substr(0, 50)}) {
    put("cut.gguf", text);
    EXPECT_NE(refusal(folder_ / "cut.gguf").find(": a GGUF file"), std::string::npos);
  }
}

TEST_F(FolderCheck, LfsPointers) {
  const std::string sentence =
      ": a Git LFS pointer, not the file itself (4,998,123 bytes): the repository was cloned without LFS; "
      "run `git "
      "lfs pull` there";
  put("model/config.json");
  for (const char* name : {"model/tokenizer.json", "model/model-00001-of-00002.safetensors"}) {
    const fs::path file = put(name, kPointer);
    EXPECT_EQ(refusal(folder_ / "model"), file.string() + sentence);
    EXPECT_EQ(refusal(file), file.string() + sentence);
    fs::remove(file);
  }
  const fs::path single = put("model/model.safetensors", kPointer);
  try {
    const Checkpoint checkpoint(folder_ / "model");
    ADD_FAILURE() << "opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), single.string() + sentence);
  }
}

TEST_F(FolderCheck, FilesAndFoldersBeside) {
  put("model/config.json");
  const fs::path file = put("model/model.safetensors", "x");
  EXPECT_EQ(refusal(file),
            file.string() +
                ": a file; expected a checkpoint folder with config.json and *.safetensors: pass " +
                path("model"));
  EXPECT_EQ(
      refusal(folder_.path()),
      folder_.path().string() +
          ": no config.json here; expected a checkpoint folder with config.json and *.safetensors: pass " +
          path("model"));
  const fs::path pickle = put("pickles/pytorch_model.bin", "x");
  EXPECT_NE(refusal(folder_ / "pickles").find(pickle.string() + ": a file of another format"),
            std::string::npos);
  put("tensors/model.safetensors", "x");
  EXPECT_NE(refusal(folder_ / "tensors").find("no config.json here, though there are *.safetensors"),
            std::string::npos);
  fs::create_directories(folder_ / "empty");
  EXPECT_EQ(refusal(folder_ / "empty"),
            path("empty") +
                ": no config.json here; expected a checkpoint folder with config.json and *.safetensors");
}

/// A pipe among the files would keep a reader waiting.
TEST_F(FolderCheck, PipesAreNotRead) {
  put("model/config.json");
  ASSERT_EQ(::mkfifo((folder_ / "model" / "x.json").c_str(), 0600), 0);
  EXPECT_EQ(refusal(folder_ / "model"), "");
}

}  // namespace
}  // namespace baleen
