/// A random checkpoint of a small geometry, gone when the test is over.
#pragma once

#include <string_view>

#include "model/presets.h"
#include "model_files/init.h"
#include "tests/support/temporary_folder.h"

namespace baleen::test {

/// Same config and seed, same weights on every machine.
class RandomCheckpoint {
 public:
  /// `tokenizer`: folder that it is copied from; empty: there is none.
  explicit RandomCheckpoint(const ModelConfig& config, std::uint64_t seed = 1,
                            const std::filesystem::path& tokenizer = {}) {
    ThreadPool pool(1);
    init_checkpoint(folder_ / "model", config, {.seed = seed, .tokenizer = tokenizer}, pool);
  }
  explicit RandomCheckpoint(std::string_view preset, std::uint64_t seed = 1)
      : RandomCheckpoint(preset_config(preset), seed) {}

  [[nodiscard]] std::filesystem::path path() const { return folder_ / "model"; }
  [[nodiscard]] std::filesystem::path weights() const { return path() / "model.safetensors"; }

 private:
  TemporaryFolder folder_;
};

}  // namespace baleen::test
