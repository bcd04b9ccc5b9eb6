/// A trained model as a checkpoint in the released layout, which the other commands take.
#pragma once

#include <filesystem>

#include "parallel/thread_pool.h"
#include "trainer/config/train_config.h"
#include "trainer/graph/parameters.h"

namespace baleen {

/// Whether the released layout, and so the engine, has the run's models: not with one residual stream.
[[nodiscard]] inline bool has_released_layout(const TrainConfig& config) {
  return !config.ablation.plain_residual;
}
/// Throws `Error` where it does not.
void check_released_layout(const TrainConfig& config);

/// Matrices of experts and dense matrices in the formats of `config.model` (FP4 and FP8 as released, or
/// BF16), the rest as the tensor table says; config.json; the tokenizer that lies beside the data. The
/// folder appears whole or not at all; an earlier checkpoint in it is replaced where `replace` is set. The
/// bytes do not depend on the threads. Throws `Error`.
void export_model(const std::filesystem::path& folder, const TrainConfig& config,
                  const Parameters<float>& weights, const TokenTables& token_tables, bool replace,
                  ThreadPool& pool);

}  // namespace baleen
