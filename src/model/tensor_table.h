/// Every tensor of a model, derived from its config: the one place that knows the released names, the shapes,
/// how tensors are stored, how they split over ranks, where passes want them, what training begins with and
/// how it updates them. A new tensor is a row here and its use: checks, loading, device copies, `inspect`,
/// plans, ranks, the simulator, the trainer and exports all walk the table. (source: checkpoint
/// specification, "Tensor table")
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "model/config.h"
#include "model/model_family.h"
#include "model/rank_config.h"
#include "model/tensor_place.h"
#include "model/tensor_split.h"

namespace baleen {

/// How the released layout stores a tensor. The formats of dense and expert matrices are a choice
/// (`StorageFormats`); `kFp8Rows` are e4m3 with one e8m0 scale for each row and 32 columns.
enum class Storage : std::uint8_t { kBf16, kF32, kI64, kDense, kExpert, kFp8Rows };

/// What its values do. Training starts and updates them by it.
enum class TensorKind : std::uint8_t {
  kLinear,        ///< a linear map, or a row for each token
  kGate,          ///< a linear map to what weighs others: of routers and compressors
  kNorm,          ///< factors around 1
  kSink,          ///< one for each attention head
  kPositionBias,  ///< added to the gates of a compressor's entry
  kMixingBias,
  kMixingScale,
  kRoutingBias,  ///< has no gradient
  kIds,
  kAdapter  ///< a factor of a matrix's low-rank adapter, which no checkpoint has
};

enum class TensorRole : std::uint8_t {
  kEmbedding,
  kHead,
  kNorm,
  kHyperConnection,
  kAttention,
  kCompressor,
  kIndexer,
  kRouter,
  kSharedExpert,
  kRoutedExpert,
  kDraftProjection,
  kEngramTable,
  kEngramProjection
};

/// "embedding", "attention", "routed experts", ...
[[nodiscard]] std::string_view tensor_role_name(TensorRole role);

/// One logical tensor. Of dense and expert matrices `name` is the stem: "layers.0.attn.wq_a" is stored as
/// "layers.0.attn.wq_a.weight" and, unless BF16, "layers.0.attn.wq_a.scale". `shape` is [out, in], FP4 not
/// packed.
struct TensorSpec {
  std::string name;
  std::vector<std::int64_t> shape;
  Storage storage = Storage::kBf16;
  TensorRole role = TensorRole::kAttention;
  std::int64_t block = -1;     ///< layer, or num_hidden_layers + block of the draft head; -1 at the top level
  bool of_draft_head = false;  ///< it belongs to one of those blocks
  TensorSplit split = TensorSplit::kReplicated;
  std::int64_t expert = -1;  ///< among the block's routed experts; -1: of none
  std::int64_t count = 1;    ///< tensors like this one, of as many experts, that it stands for
  TensorPlace place{};       ///< none: it lies outside the trees, as tables of n-grams do
  TensorKind kind = TensorKind::kLinear;
  /// Rows of each logically independent matrix, in order, of all ranks; empty: it is one.
  std::vector<std::int64_t> matrix_rows{};
  std::int64_t stream = 0;  ///< a mixing's bias: which residual stream training lets it read first

  [[nodiscard]] std::int64_t num_elements() const;
  [[nodiscard]] bool is_linear() const { return kind == TensorKind::kLinear || kind == TensorKind::kGate; }
  [[nodiscard]] bool is_matrix() const { return storage == Storage::kDense || storage == Storage::kExpert; }
  /// Codes with scales beside them, or rows that could have some: not one array of plain numbers.
  [[nodiscard]] bool is_encoded() const { return is_matrix() || storage == Storage::kFp8Rows; }
};

/// How matrices of one storage lie in a file.
struct StoredFormat {
  WeightFormat weight = WeightFormat::kBF16;
  DType scale = DType::kF8E8M0;  ///< type of kFp8's scales; other formats have one type

  /// What the scales are stored as.
  [[nodiscard]] DType scale_dtype() const {
    if (weight == WeightFormat::kNvfp4) return DType::kF8E4M3;
    return weight == WeightFormat::kFp8x32 ? DType::kF8E8M0 : scale;
  }
  bool operator==(const StoredFormat&) const = default;
};

/// Formats of one checkpoint. Base checkpoints have FP8 experts and F32 scales.
struct StorageFormats {
  WeightFormat dense = WeightFormat::kFp8;
  WeightFormat experts = WeightFormat::kFp4;
  DType dense_scale = DType::kF8E8M0;
  DType expert_scale = DType::kF8E8M0;
  /// Of a draft head's blocks, where they are others than the layers'.
  std::optional<StoredFormat> draft_dense = std::nullopt;
  std::optional<StoredFormat> draft_experts = std::nullopt;
  /// Of single matrices that differ from these, by name: foreign files mix formats.
  std::map<std::string, StoredFormat, std::less<>> single{};
  /// They lie in memory of ours, not in a file's map.
  bool made = false;

  [[nodiscard]] StoredFormat stored(const TensorSpec& tensor) const;
  [[nodiscard]] WeightFormat of(const TensorSpec& tensor) const { return stored(tensor).weight; }
  [[nodiscard]] DType scale_of(const TensorSpec& tensor) const { return stored(tensor).scale_dtype(); }
  bool operator==(const StorageFormats&) const = default;
};

/// In the order of a forward pass: embedding, layers, head, blocks of the draft head.
[[nodiscard]] std::vector<TensorSpec> tensor_table(const ModelConfig& config);

/// The same of one rank, with its blocks and shapes. Of a block's routed experts, which are all alike, the
/// first stands for all that the rank has.
[[nodiscard]] std::vector<TensorSpec> rank_table(const RankConfig& rank);

/// "layers.3." or "mtp.0."
[[nodiscard]] std::string block_prefix(const ModelConfig& config, std::int64_t block);

/// What lies in a file for `tensor`: one tensor, or a weight followed by its scales and, of NVFP4, the scale
/// of the whole matrix.
[[nodiscard]] std::vector<TensorHeader> stored_tensors(const TensorSpec& tensor,
                                                       const StorageFormats& formats);

/// One array of a tensor as the forward pass reads it: stored as `stored`, held as `dtype`.
struct HeldArray {
  TensorHeader stored;
  DType dtype = DType::kF32;
  /// Bytes of which its address is a multiple: a matrix's weights may lie anywhere.
  std::int64_t alignment = 1;

  [[nodiscard]] std::int64_t size_bytes() const { return stored.num_elements() * dtype_bytes(dtype); }
};

/// Of `stored_tensors`: vectors and kFp8's scales are held in float32, tables of ids in int32, all else as
/// stored.
[[nodiscard]] std::vector<HeldArray> held_arrays(const TensorSpec& tensor, const StorageFormats& formats);

/// Bytes of all tensors of a table, scales included.
[[nodiscard]] std::int64_t stored_bytes(const std::vector<TensorSpec>& table, const StorageFormats& formats);

/// The formats by the tensors of the first layer and of the draft head's first block (matrix_kind.h); what is
/// missing or of a strange dtype is taken from the config, and is then reported by `mismatches`.
[[nodiscard]] StorageFormats detect_formats(const ModelConfig& config, const Checkpoint& checkpoint);

/// A sentence for every tensor that is missing, unknown, or of a dtype or shape that the config does not
/// ask for, in the order of the table; before those one about experts that are too few or too many. Tensors
/// that are left out on purpose (`is_left_out`) are none of them. Empty for a checkpoint that can be run.
/// Reads no weights.
[[nodiscard]] std::vector<std::string> mismatches(const ModelConfig& config, const Checkpoint& checkpoint);

/// Throws `Error` with the first few mismatches, if any.
void check_tensors(const ModelConfig& config, const Checkpoint& checkpoint);

}  // namespace baleen
