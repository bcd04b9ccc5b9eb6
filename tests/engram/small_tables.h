/// A checkpoint with Engram tables of a few hundred rows and nothing else, and its config: what is beside the
/// tables is as in DeepSeek-V4.1-Flash.
#pragma once

#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/safetensors_writer.h"
#include "engram/stored_table.h"
#include "model/config.h"
#include "model/engram_tables.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/v41_headers.h"

namespace baleen::test {

/// Before layers 1 and 3, with n-grams of 2 to 4 tokens, six rows of 40 values (and so two scales) a token.
[[nodiscard]] inline ModelConfig small_engram_config() {
  ModelConfig config = parse_config(v41_config().dump(), "config.json");
  config.vocab_size = 32;
  EngramConfig& engram = config.engram.emplace(EngramConfig{.layer_ids = {1, 3},
                                                            .max_ngram_size = 4,
                                                            .vocab_size = 50,
                                                            .n_heads = 2,
                                                            .head_dim = 40,
                                                            .pad_token_id = 2,
                                                            .compressed_vocab_size = 20,
                                                            .image_token_id = 31});
  for (const EngramTable& table : engram_tables(engram)) engram.num_embeddings.push_back(table.num_rows());
  return config;
}

/// Compressed ids of its 32 tokens.
[[nodiscard]] inline std::vector<TokenId> small_compressed_ids() {
  std::vector<TokenId> ids;
  for (TokenId token = 0; token < 32; ++token) ids.push_back(token * 7 % 20);
  return ids;
}

/// Tables of a config, with random bytes.
class SmallTables {
 public:
  explicit SmallTables(ModelConfig of = small_engram_config())
      : SmallTables(std::move(of), [](std::vector<TensorHeader>&) {}) {}
  /// With other headers than the config asks for.
  template <class Change>
  SmallTables(ModelConfig of, Change change) : config(std::move(of)) {
    const EngramConfig& engram = *config.engram;
    std::vector<TensorHeader> headers;
    for (std::size_t i = 0; i < engram.layer_ids.size(); ++i) {
      const std::string name = fmt::format("layers.{}.engram.embed", engram.layer_ids[i]);
      const std::int64_t rows = engram.num_embeddings[i];
      headers.push_back({name + ".weight", DType::kF8E4M3, {rows, engram.head_dim}});
      headers.push_back({name + ".scale", DType::kF8E8M0, {rows, (engram.head_dim + 31) / 32}});
    }
    change(headers);
    SafetensorsWriter writer(file(), headers);
    std::mt19937 random(1);
    for (const TensorHeader& header : writer.order()) {
      const bool is_scale = header.dtype == DType::kF8E8M0;
      std::vector<std::byte> bytes(static_cast<std::size_t>(header.size_bytes()));
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(is_scale ? 110 + random() % 20 : random());
      writer.append(header.name, bytes);
    }
    writer.commit();
  }

  [[nodiscard]] std::filesystem::path file() const { return folder_ / "model.safetensors"; }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_.path(); }

  ModelConfig config;

 private:
  TemporaryFolder folder_;
};

}  // namespace baleen::test
