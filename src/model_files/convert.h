/// Checkpoint in, checkpoint out: other shards, other number formats, and an account of what that cost.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/tensor_table.h"
#include "parallel/thread_pool.h"

namespace baleen {

struct ConvertOptions {
  std::optional<WeightFormat> experts = {};  ///< nothing: as they are
  std::optional<WeightFormat> dense = {};    ///< BF16 or FP8
  bool has_draft_head = true;                ///< false: the draft head is left out
  bool has_vision = true;                    ///< false: the vision tower is left out
  std::int64_t max_shard_bytes = 5'000'000'000;
  bool force = false;                    ///< replace the checkpoint of a folder that is not empty
  std::function<bool()> cancelled = {};  ///< asked now and then; true ends the conversion with `Cancelled`
};

/// What rounding did to the matrices of one role, by comparing every stored value with its source.
struct RoundingLoss {
  std::int64_t num_tensors = 0;
  std::int64_t num_exact = 0;     ///< tensors without a single changed value
  double max_relative_error = 0;  ///< largest |change| over the largest |value| of the same tensor
  double sum_change = 0;          ///< sum of |change|
  double sum_value = 0;           ///< sum of |value|

  [[nodiscard]] double mean_relative_error() const { return sum_value > 0 ? sum_change / sum_value : 0; }
};

/// Which NVFP4 matrices have the same values in FP4: all scales are powers of two, and both halves of every
/// 32 weights have the same. Looked at before anything is written.
struct Fp4Proof {
  std::int64_t num_matrices = 0;
  std::int64_t num_exact = 0;
  std::string why_not;  ///< name and scale of the first that is not exact; empty: all are
};

struct ConvertReport {
  StorageFormats from;
  StorageFormats to;
  std::int64_t num_tensors = 0;
  std::int64_t total_bytes = 0;
  std::string left_out;  ///< what of `in` was not written, in words (`left_out_text`); empty: nothing
  std::string copied;    ///< what was written though nothing here reads it, in the same words
  Fp4Proof fp4_proof;    ///< what kept NVFP4 experts, or let them become FP4
  std::map<TensorRole, RoundingLoss> changed;  ///< roles whose format changed
  /// Of foreign files the same of single tensors that lost something; "*" stands for all experts of a layer.
  std::map<std::string, RoundingLoss> lossy_tensors;
  std::vector<std::string> notes;  ///< what else is to be said of the values
  /// Matrices that lost something though their conversion can be lossless: FP4 to FP8 (scales of a block
  /// further apart than 2^14), FP4 or FP8 to BF16 (scales that are no powers of two, or at the edge of the
  /// range).
  std::vector<std::string> unexpected_losses;

  [[nodiscard]] bool lossless() const;
};

/// Streams tensor by tensor; holds one matrix whose format changes, and nothing of what is copied. FP4
/// becomes FP8 exactly as in the released converter and NVFP4 as ModelOpt casts it; NVFP4 becomes FP4
/// where every matrix has the same values there, and otherwise stays; everything else is decoded and
/// rounded anew where its format changes and copied where not, as tables of n-grams always are. FP8 is
/// what the model's family has, of V4.1 in blocks of 32 x 32. Companion files (tokenizer, licence) are
/// copied, config.json is adapted. A draft head is written too, whether the engine computes it or not,
/// and vision, which it does not, byte for byte, unless `options` leave them out. Foreign formats (of
/// GGUF files) become, unless `options` say otherwise, FP8 experts and BF16 dense matrices. The result is
/// read back and compared before this returns. Throws `Error`, leaving nothing behind, when config and
/// tensors of `in` do not fit together, weights are not numbers, `out` is `in`, inside it or around it,
/// holds anything but a checkpoint to be replaced, or the disk is full. `out` stays as it was until the
/// result has been verified (`StagedFolder`).
ConvertReport convert_checkpoint(const std::filesystem::path& in, const std::filesystem::path& out,
                                 const ConvertOptions& options, ThreadPool& pool);

[[nodiscard]] std::string report_text(const ConvertReport& report);

}  // namespace baleen
