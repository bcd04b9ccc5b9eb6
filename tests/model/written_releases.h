/// Checkpoints of releases on disk, for tests: edited forms of a random one, and what is said of them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "base/error.h"
#include "model/model_folder.h"
#include "model/presets.h"
#include "model/weights.h"
#include "tests/support/edited_checkpoint.h"
#include "tests/support/random_checkpoint.h"

namespace baleen {

class WrittenReleases : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    preview_ = new test::RandomCheckpoint(with_experts(preset_config("tiny-flash"), 4));
  }
  static void TearDownTestSuite() { delete preview_; }

  test::TemporaryFolder folder_;

  /// Random weights in the preview's form, with FP4 experts.
  [[nodiscard]] static std::filesystem::path preview() { return preview_->path(); }

  [[nodiscard]] std::filesystem::path written(const test::EditedCheckpoint& checkpoint) {
    const std::filesystem::path path = folder_ / fmt::format("release-{}", ++count_);
    checkpoint.write(path, 1'000'000);
    return path;
  }
  /// What comes after the folder's name; nothing: the model is read.
  static std::string refusal(const std::filesystem::path& model) {
    try {
      const ModelWeights weights(model);
    } catch (const Error& error) {
      const std::string sentence = error.what(), name = model.string() + ": ";
      EXPECT_TRUE(sentence.starts_with(name)) << sentence;
      return sentence.substr(std::min(name.size(), sentence.size()));
    }
    return "";
  }

 private:
  static inline test::RandomCheckpoint* preview_ = nullptr;
  int count_ = 0;
};

}  // namespace baleen
