/// Random checkpoints in the released layout.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "model/config.h"
#include "parallel/thread_pool.h"

namespace baleen {

struct InitOptions {
  std::uint64_t seed = 1;
  std::int64_t max_shard_bytes = 5'000'000'000;
  std::filesystem::path tokenizer = {};  ///< folder to copy a tokenizer from; empty writes none
  bool force = false;                    ///< replace the checkpoint of a folder that is not empty
  std::function<bool()> cancelled = {};  ///< asked now and then; true ends it with `Cancelled`
};

/// Weights as `make_random_weights` makes them. The bytes depend on config and seed alone, not on the
/// threads. Memory: one matrix. Throws `Error`, leaving nothing behind and `folder` as it was, when the
/// folder cannot be used or the disk is full. Returns the bytes of the tensors.
std::int64_t init_checkpoint(const std::filesystem::path& folder, const ModelConfig& config,
                             const InitOptions& options, ThreadPool& pool);

}  // namespace baleen
