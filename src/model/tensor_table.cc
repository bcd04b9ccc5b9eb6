#include "model/tensor_table.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <unordered_set>

#include "base/error.h"
#include "model/checkpoint_kind.h"
#include "model/matrix_kind.h"
#include "numeric/block_scale.h"

namespace baleen {
namespace {

constexpr RankShare kWholeModel{};

/// Appends the tensors of one block, or of the top level, under a name prefix.
class TableBuilder {
 public:
  /// The first `num_experts` routed experts of every block.
  TableBuilder(const ModelConfig& config, const RankShare& share, std::int64_t num_experts)
      : c_(config), share_(share), num_experts_(num_experts) {}

  std::vector<TensorSpec> build() {
    reserve();
    if (share_.embedding) {
      add("embed.weight", {c_.vocab_size, c_.hidden_size}, Storage::kBf16, TensorRole::kEmbedding);
    }
    for (block_ = 0; block_ < c_.num_hidden_layers; ++block_) {
      prefix_ = block_prefix(c_, block_);
      add_block();
    }
    block_ = -1;
    prefix_.clear();
    if (share_.head) {
      add_head_mixing();
      add("norm.weight", {c_.hidden_size}, Storage::kBf16, TensorRole::kNorm);
      add("head.weight", {c_.vocab_size, c_.hidden_size}, Storage::kBf16, TensorRole::kHead,
          TensorSplit::kVocabulary);
    }
    for (block_ = c_.num_hidden_layers; block_ < c_.num_blocks(); ++block_) {
      prefix_ = block_prefix(c_, block_);
      add_block();
      add_mtp_extras();
    }
    return std::move(table_);
  }

 private:
  using Shape = std::vector<std::int64_t>;

  void reserve() {
    constexpr std::int64_t kMaxBesideExperts = 40;  // a ratio-4 layer has 25, the MTP block 27
    table_.reserve(static_cast<std::size_t>(c_.num_blocks() * (kMaxBesideExperts + 3 * num_experts_)));
  }

  void add(std::string_view name, Shape shape, Storage storage, TensorRole role,
           TensorSplit split = TensorSplit::kReplicated) {
    table_.push_back({fmt::format("{}{}", prefix_, name), rank_shape(std::move(shape), split, share_),
                      storage, role, block_, split});
  }
  void add_norm(std::string_view name, std::int64_t width, TensorRole role = TensorRole::kNorm) {
    add(fmt::format("{}.weight", name), {width}, Storage::kBf16, role);
  }

  void add_block() {
    add_mixing("hc_attn");
    add_norm("attn_norm", c_.hidden_size);
    add_attention();
    add_mixing("hc_ffn");
    add_norm("ffn_norm", c_.hidden_size);
    add_experts();
  }

  void add_mixing(std::string_view name) {
    add(fmt::format("{}_fn", name), {c_.hc_num_mixes(), c_.hc_dim()}, Storage::kF32,
        TensorRole::kHyperConnection);
    add(fmt::format("{}_base", name), {c_.hc_num_mixes()}, Storage::kF32, TensorRole::kHyperConnection);
    add(fmt::format("{}_scale", name), {3}, Storage::kF32, TensorRole::kHyperConnection);
  }

  void add_head_mixing() {
    add("hc_head_fn", {c_.hc_mult, c_.hc_dim()}, Storage::kF32, TensorRole::kHyperConnection);
    add("hc_head_base", {c_.hc_mult}, Storage::kF32, TensorRole::kHyperConnection);
    add("hc_head_scale", {1}, Storage::kF32, TensorRole::kHyperConnection);
  }

  void add_attention() {
    add("attn.attn_sink", {c_.num_attention_heads}, Storage::kF32, TensorRole::kAttention,
        TensorSplit::kHeads);
    add("attn.wq_a", {c_.q_lora_rank, c_.hidden_size}, Storage::kDense, TensorRole::kAttention);
    add_norm("attn.q_norm", c_.q_lora_rank);
    add("attn.wq_b", {c_.q_dim(), c_.q_lora_rank}, Storage::kDense, TensorRole::kAttention,
        TensorSplit::kHeads);
    add("attn.wkv", {c_.head_dim, c_.hidden_size}, Storage::kDense, TensorRole::kAttention);
    add_norm("attn.kv_norm", c_.head_dim);
    add("attn.wo_a", {c_.o_dim(), c_.group_dim()}, Storage::kDense, TensorRole::kAttention,
        TensorSplit::kOutputGroups);
    add("attn.wo_b", {c_.hidden_size, c_.o_dim()}, Storage::kDense, TensorRole::kAttention,
        TensorSplit::kGroupColumns);
    const LayerAttention shape = c_.attention(block_);
    if (shape.compresses()) add_compressor("attn.compressor", shape, c_.head_dim, TensorRole::kCompressor);
    if (shape.indexed) {
      add("attn.indexer.wq_b", {c_.index_q_dim(), c_.q_lora_rank}, Storage::kDense, TensorRole::kIndexer);
      add("attn.indexer.weights_proj.weight", {c_.index_n_heads, c_.hidden_size}, Storage::kBf16,
          TensorRole::kIndexer);
      if (shape.compresses())
        add_compressor("attn.indexer.compressor", shape, c_.index_head_dim, TensorRole::kIndexer);
    }
  }

  /// Where entries overlap, a token serves its own entry and the next one, with separate columns for each.
  void add_compressor(std::string_view name, const LayerAttention& shape, std::int64_t width,
                      TensorRole role) {
    const std::int64_t columns = shape.compressor_columns(width);
    add(fmt::format("{}.ape", name), {shape.ratio, columns}, Storage::kF32, role);
    add(fmt::format("{}.wkv.weight", name), {columns, c_.hidden_size}, Storage::kBf16, role);
    add(fmt::format("{}.wgate.weight", name), {columns, c_.hidden_size}, Storage::kBf16, role);
    add_norm(fmt::format("{}.norm", name), width, role);
  }

  void add_experts() {
    add("ffn.gate.weight", {c_.n_routed_experts, c_.hidden_size}, Storage::kBf16, TensorRole::kRouter);
    if (c_.is_hash_routed(block_)) {
      add("ffn.gate.tid2eid", {c_.vocab_size, c_.num_experts_per_tok}, Storage::kI64, TensorRole::kRouter);
    } else {
      add("ffn.gate.bias", {c_.n_routed_experts}, Storage::kF32, TensorRole::kRouter);
    }
    add_swiglu("ffn.shared_experts", Storage::kDense, TensorRole::kSharedExpert, TensorSplit::kSharedRows,
               TensorSplit::kSharedColumns);
    for (std::int64_t expert = 0; expert < num_experts_; ++expert) {
      add_swiglu(fmt::format("ffn.experts.{}", expert), Storage::kExpert, TensorRole::kRoutedExpert,
                 TensorSplit::kExpertRows, TensorSplit::kExpertColumns);
    }
  }

  void add_swiglu(std::string_view name, Storage storage, TensorRole role, TensorSplit rows,
                  TensorSplit columns) {
    add(fmt::format("{}.w1", name), {c_.moe_intermediate_size, c_.hidden_size}, storage, role, rows);
    add(fmt::format("{}.w2", name), {c_.hidden_size, c_.moe_intermediate_size}, storage, role, columns);
    add(fmt::format("{}.w3", name), {c_.moe_intermediate_size, c_.hidden_size}, storage, role, rows);
  }

  void add_mtp_extras() {
    for (const char* name : {"e_proj", "h_proj"}) {
      add(name, {c_.hidden_size, c_.hidden_size}, Storage::kDense, TensorRole::kMtpProjection);
    }
    for (const char* name : {"enorm", "hnorm", "norm"}) add_norm(name, c_.hidden_size);
    add_head_mixing();
  }

  const ModelConfig& c_;
  const RankShare& share_;
  std::int64_t num_experts_;
  std::vector<TensorSpec> table_;
  std::string prefix_;
  std::int64_t block_ = -1;
};

/// What the tensors say; where they are missing or foreign, nothing changes.
void detect(const Checkpoint& checkpoint, const std::string& stem, WeightFormat& format, DType& scale) {
  const MatrixKind kind = matrix_kind(checkpoint, stem);
  format = kind.weight_format().value_or(format);
  if (kind.format == MatrixFormat::kFp8 && kind.scale == DType::kF32) scale = DType::kF32;
}

/// Of a layer: experts 0, 1, 2, ... up to the first that is not there.
std::int64_t count_experts(const Checkpoint& checkpoint, std::int64_t layer) {
  std::int64_t count = 0;
  while (checkpoint.find(fmt::format("layers.{}.ffn.experts.{}.w1.weight", layer, count)) != nullptr) ++count;
  return count;
}

/// A sentence about sets of experts that are not those of the config, which would otherwise be a sentence
/// for each tensor; empty where there is no such thing.
std::string why_not_experts(const ModelConfig& config, const Checkpoint& checkpoint) {
  std::int64_t least = INT64_MAX, most = 0;
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::int64_t count = count_experts(checkpoint, layer);
    least = std::min(least, count);
    most = std::max(most, count);
  }
  const std::int64_t wanted = config.n_routed_experts;
  if (most == 0 || (least == wanted && most == wanted)) return "";
  if (least < most) {
    return fmt::format(
        "routed experts: layers have from {} to {} of them without a gap, config.json says {} "
        "(\"n_routed_experts\"); is the checkpoint complete? One with different numbers in its layers cannot "
        "be run",
        least, most, wanted);
  }
  return fmt::format(
      "routed experts: every layer has {}, config.json says {} (\"n_routed_experts\"); of a pruned "
      "checkpoint write "
      "the number that its routers have rows for, as \"layers.0.ffn.gate.weight\"",
      most, wanted);
}

}  // namespace

std::int64_t TensorSpec::num_elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::vector<TensorSpec> tensor_table(const ModelConfig& config) {
  return TableBuilder(config, kWholeModel, config.n_routed_experts).build();
}

std::vector<TensorSpec> rank_table(const ModelConfig& config, const RankShare& share) {
  return TableBuilder(config, share, 1).build();
}

std::string block_prefix(const ModelConfig& config, std::int64_t block) {
  return config.is_mtp(block) ? fmt::format("mtp.{}.", block - config.num_hidden_layers)
                              : fmt::format("layers.{}.", block);
}

std::vector<std::int64_t> scale_shape(const std::vector<std::int64_t>& shape, WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
    case WeightFormat::kBF16:
      return {};
    case WeightFormat::kFp8:
      return {(shape[0] + kWeightBlock - 1) / kWeightBlock, (shape[1] + kWeightBlock - 1) / kWeightBlock};
    case WeightFormat::kFp4:
    case WeightFormat::kInt8:
      return {shape[0], shape[1] / kIndexerBlock};
  }
  return {};
}

std::vector<TensorHeader> stored_tensors(const TensorSpec& tensor, const StorageFormats& formats) {
  if (!tensor.is_matrix()) {
    const DType dtype = tensor.storage == Storage::kBf16  ? DType::kBF16
                        : tensor.storage == Storage::kF32 ? DType::kF32
                                                          : DType::kI64;
    return {{tensor.name, dtype, tensor.shape}};
  }
  const WeightFormat format = formats.of(tensor.storage);
  const DType scale = formats.scale_of(tensor.storage);
  const std::string weight_name = tensor.name + ".weight";
  switch (format) {
    case WeightFormat::kF32:
      return {{weight_name, DType::kF32, tensor.shape}};
    case WeightFormat::kBF16:
      return {{weight_name, DType::kBF16, tensor.shape}};
    case WeightFormat::kFp8:
      return {{weight_name, DType::kF8E4M3, tensor.shape},
              {tensor.name + ".scale", scale, scale_shape(tensor.shape, format)}};
    case WeightFormat::kFp4:
      return {{weight_name, DType::kI8, {tensor.shape[0], tensor.shape[1] / 2}},
              {tensor.name + ".scale", scale, scale_shape(tensor.shape, format)}};
    case WeightFormat::kInt8:  // in no file
      break;
  }
  return {};
}

std::int64_t stored_bytes(const std::vector<TensorSpec>& table, const StorageFormats& formats) {
  std::int64_t bytes = 0;
  for (const TensorSpec& spec : table) {
    for (const TensorHeader& tensor : stored_tensors(spec, formats)) bytes += tensor.size_bytes();
  }
  return bytes;
}

StorageFormats detect_formats(const ModelConfig& config, const Checkpoint& checkpoint) {
  StorageFormats formats{.dense = config.dense_format, .experts = config.expert_format};
  detect(checkpoint, "layers.0.attn.wq_a", formats.dense, formats.dense_scale);
  detect(checkpoint, "layers.0.ffn.experts.0.w1", formats.experts, formats.expert_scale);
  return formats;
}

std::vector<std::string> mismatches(const ModelConfig& config, const Checkpoint& checkpoint) {
  std::vector<std::string> sentences;
  if (std::string why_not = why_not_experts(config, checkpoint); !why_not.empty())
    sentences.push_back(std::move(why_not));
  std::unordered_set<std::string_view> known;
  known.reserve(checkpoint.tensors().size());
  const StorageFormats formats = detect_formats(config, checkpoint);
  for (const TensorSpec& spec : tensor_table(config)) {
    for (const TensorHeader& want : stored_tensors(spec, formats)) {
      const TensorInfo* found = checkpoint.find(want.name);
      if (found == nullptr) {
        sentences.push_back(
            fmt::format("tensor \"{}\": missing, config wants {}", want.name, want.type_text()));
        continue;
      }
      known.insert(found->name);
      if (found->dtype != want.dtype || found->shape != want.shape) {
        sentences.push_back(fmt::format("tensor \"{}\" in {}: {}, config wants {}", want.name, found->file,
                                        found->type_text(), want.type_text()));
      }
    }
  }
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    if (!known.contains(tensor.name) && !is_left_out(tensor.name, config.num_nextn_predict_layers)) {
      sentences.push_back(fmt::format("tensor \"{}\" in {}: {}, but the config has no such tensor",
                                      tensor.name, tensor.file, tensor.type_text()));
    }
  }
  return sentences;
}

void check_tensors(const ModelConfig& config, const Checkpoint& checkpoint) {
  constexpr std::size_t kMaxShown = 3;
  const std::vector<std::string> found = mismatches(config, checkpoint);
  if (found.empty()) return;
  std::string shown;
  for (std::size_t i = 0; i < std::min(kMaxShown, found.size()); ++i) shown += "\n  " + found[i];
  if (found.size() > kMaxShown) shown += fmt::format("\n  and {} more", found.size() - kMaxShown);
  fail("{}: config.json and tensors do not fit together; `baleen inspect` lists everything.{}",
       checkpoint.folder().string(), shown);
}

}  // namespace baleen
