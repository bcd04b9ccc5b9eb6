#include "model/gguf_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/quoted_text.h"
#include "checkpoint/gguf/block_codec.h"
#include "model/gguf_config.h"
#include "model/published_release.h"
#include "model/tensor_table.h"
#include "numeric/bf16.h"

namespace baleen {
namespace {

/// A tensor's name behind its block's prefix, here and there. "#" stands for the number of an expert, whose
/// matrices a file has stacked in one tensor.
struct NamePair {
  std::string_view released, gguf;
};

constexpr std::array<NamePair, 6> kTopNames{{{"embed.weight", "token_embd.weight"},
                                             {"head.weight", "output.weight"},
                                             {"norm.weight", "output_norm.weight"},
                                             {"hc_head_fn", "output_hc_fn.weight"},
                                             {"hc_head_base", "output_hc_base.weight"},
                                             {"hc_head_scale", "output_hc_scale.weight"}}};

constexpr std::array<NamePair, 45> kBlockNames{
    {{"hc_attn_fn", "hc_attn_fn.weight"},
     {"hc_attn_base", "hc_attn_base.weight"},
     {"hc_attn_scale", "hc_attn_scale.weight"},
     {"hc_ffn_fn", "hc_ffn_fn.weight"},
     {"hc_ffn_base", "hc_ffn_base.weight"},
     {"hc_ffn_scale", "hc_ffn_scale.weight"},
     {"attn_norm.weight", "attn_norm.weight"},
     {"ffn_norm.weight", "ffn_norm.weight"},
     {"attn.attn_sink", "attn_sinks.weight"},
     {"attn.wq_a", "attn_q_a.weight"},
     {"attn.q_norm.weight", "attn_q_a_norm.weight"},
     {"attn.wq_b", "attn_q_b.weight"},
     {"attn.wkv", "attn_kv.weight"},
     {"attn.kv_norm.weight", "attn_kv_a_norm.weight"},
     {"attn.wo_a", "attn_output_a.weight"},
     {"attn.wo_b", "attn_output_b.weight"},
     {"attn.compressor.ape", "attn_compressor_ape.weight"},
     {"attn.compressor.wkv.weight", "attn_compressor_kv.weight"},
     {"attn.compressor.wgate.weight", "attn_compressor_gate.weight"},
     {"attn.compressor.norm.weight", "attn_compressor_norm.weight"},
     {"attn.indexer.wq_b", "indexer.attn_q_b.weight"},
     {"attn.indexer.weights_proj.weight", "indexer.proj.weight"},
     {"attn.indexer.compressor.ape", "indexer_compressor_ape.weight"},
     {"attn.indexer.compressor.wkv.weight", "indexer_compressor_kv.weight"},
     {"attn.indexer.compressor.wgate.weight", "indexer_compressor_gate.weight"},
     {"attn.indexer.compressor.norm.weight", "indexer_compressor_norm.weight"},
     {"ffn.gate.weight", "ffn_gate_inp.weight"},
     {"ffn.gate.bias", "exp_probs_b.bias"},
     {"ffn.gate.tid2eid", "ffn_gate_tid2eid.weight"},
     {"ffn.shared_experts.w1", "ffn_gate_shexp.weight"},
     {"ffn.shared_experts.w2", "ffn_down_shexp.weight"},
     {"ffn.shared_experts.w3", "ffn_up_shexp.weight"},
     {"ffn.experts.#.w1", "ffn_gate_exps.weight"},
     {"ffn.experts.#.w2", "ffn_down_exps.weight"},
     {"ffn.experts.#.w3", "ffn_up_exps.weight"},
     {"e_proj", "nextn.eh_proj.weight"},  // the first half of its inputs
     {"h_proj", "nextn.eh_proj.weight"},  // the second
     {"enorm.weight", "nextn.enorm.weight"},
     {"hnorm.weight", "nextn.hnorm.weight"},
     {"norm.weight", "nextn.shared_head_norm.weight"},
     {"hc_head_fn", "nextn.hc_head_fn.weight"},
     {"hc_head_base", "nextn.hc_head_base.weight"},
     {"hc_head_scale", "nextn.hc_head_scale.weight"},
     // Copies of the main embedding and head, which blocks share.
     {"emb.tok_emb.weight", "nextn.embed_tokens.weight"},
     {"head.weight", "nextn.shared_head_head.weight"}}};

/// Rows of a matrix in a file's blocks, all of a tensor or some of its rows and columns.
struct BlockRows {
  GgmlType type = GgmlType::kF32;
  const std::byte* first = nullptr;
  std::int64_t rows = 0, cols = 0;
  std::int64_t row_bytes = 0;  ///< `cols` values take
  std::int64_t stride = 0;     ///< from row to row

  [[nodiscard]] std::span<const std::byte> row(std::int64_t i) const {
    return {first + i * stride, static_cast<std::size_t>(row_bytes)};
  }
};

std::int64_t blocks_bytes(GgmlType type, std::int64_t elements) {
  const GgmlTypeTraits& traits = ggml_type_traits(type);
  return elements / traits.block_elements * traits.block_bytes;
}

/// A piece whose rows `unpack(row, to)` writes, each to the same share of it.
template <class Unpack>
MadeBytes::Piece by_rows(const BlockRows& from, std::int64_t row_size, Unpack unpack) {
  return {.size = from.rows * row_size, .make = [from, row_size, unpack](std::span<std::byte> to) {
            for (std::int64_t i = 0; i < from.rows; ++i)
              unpack(from.row(i),
                     to.subspan(static_cast<std::size_t>(i * row_size), static_cast<std::size_t>(row_size)));
          }};
}

template <class T>
std::span<T> elements(std::span<std::byte> bytes) {
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

MadeBytes::Piece floats_of(const BlockRows& from) {
  return by_rows(from, from.cols * std::int64_t{sizeof(float)},
                 [type = from.type](auto row, auto to) { decode_blocks(type, row, elements<float>(to)); });
}

MadeBytes::Piece bf16_of(const BlockRows& from) {
  return by_rows(from, from.cols * std::int64_t{sizeof(Bf16Bits)}, [type = from.type](auto row, auto to) {
    std::vector<float> values(to.size() / sizeof(Bf16Bits));
    decode_blocks(type, row, values);
    std::ranges::transform(values, elements<Bf16Bits>(to).begin(), float_to_bf16);
  });
}

MadeBytes::Piece ids_of(const BlockRows& from) {
  return by_rows(from, from.cols * std::int64_t{sizeof(std::int64_t)}, [](auto row, auto to) {
    const auto ids = elements<std::int64_t>(to);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      std::int32_t id = 0;
      std::memcpy(&id, row.data() + i * sizeof(id), sizeof(id));
      ids[i] = id;
    }
  });
}

/// Builds the list of a checkpoint's tensors by walking the table.
class Builder {
 public:
  Builder(std::shared_ptr<const GgufModel> model, const ModelConfig& config, const GgufBlocks& blocks)
      : model_(std::move(model)), config_(config), blocks_(blocks) {
    for (const NamePair& pair : kTopNames) top_.emplace(pair.released, pair.gguf);
    for (const NamePair& pair : kBlockNames) block_.emplace(pair.released, pair.gguf);
  }

  void build() {
    for (const TensorSpec& spec : tensor_table(config_))
      if (const GgufTensor* const source = source_of(spec)) add(spec, *source);
    for (std::int64_t block = blocks_.num_layers; block < blocks_.num_layers + blocks_.num_mtp; ++block)
      for (const std::string_view name : {"emb.tok_emb.weight", "head.weight"}) add_copy(block, name);
    for (const GgufTensor& tensor : model_->tensors())
      if (!used_.contains(tensor.name)) add_unknown(tensor);
  }

  /// Once.
  Checkpoint take() {
    auto made = std::make_shared<const MadeBytes>(std::move(pieces_));
    for (const auto& [tensor, piece] : of_pieces_) tensors_[tensor].bytes = made->bytes(piece);
    ForeignFiles foreign{.files = model_->files(), .made = std::move(made), .stored = {}};
    for (const GgufTensor& tensor : model_->tensors())
      foreign.stored.push_back({std::string(ggml_type_traits(tensor.type).name), std::ssize(tensor.bytes)});
    return {model_->path().string(), std::move(tensors_), model_, std::move(foreign)};
  }

  /// The tensor that `spec` is in; null: none.
  [[nodiscard]] const GgufTensor* source_of(const TensorSpec& spec) const {
    return model_->find(gguf_name(spec));
  }
  /// Why the engine cannot compute with it; empty: it can.
  [[nodiscard]] const std::string& why_not() const { return why_not_; }
  /// Tensors of a draft head under names that only ds4 has.
  [[nodiscard]] const LeftOut& of_ds4() const { return of_ds4_; }
  [[nodiscard]] const std::map<std::string, std::int64_t>& rounded() const { return rounded_; }

 private:
  [[nodiscard]] std::string gguf_name(const TensorSpec& spec) const {
    if (spec.block < 0) {
      const auto found = top_.find(spec.name);
      return found == top_.end() ? "" : std::string(found->second);
    }
    std::string rest = spec.name.substr(block_prefix(config_, spec.block).size());
    if (spec.expert >= 0) rest = fmt::format("ffn.experts.#.{}", rest.substr(rest.rfind('.') + 1));
    const auto found = block_.find(rest);
    return found == block_.end() ? "" : fmt::format("blk.{}.{}", spec.block, found->second);
  }

  void add(const TensorSpec& spec, const GgufTensor& source) {
    used_.insert(source.name);
    if (spec.is_matrix()) {
      if (const auto rows = matrix_rows(spec, source)) add_matrix(spec, source, *rows);
      return;
    }
    const auto rows = whole_rows(source);
    if (spec.storage == Storage::kBf16) {
      if (source.type == GgmlType::kBF16) return add_mapped(spec.name, DType::kBF16, source);
      if (!has_decoder(source.type)) return refuse(source);
      // Converters make float32 of vectors in BF16: these come out as they were.
      if (source.type != GgmlType::kF32 || source.shape.size() > 1)
        rounded_[std::string(ggml_type_traits(source.type).name)] += 1;
      add_made(spec.name, DType::kBF16, source.shape, source, bf16_of(rows));
    } else if (spec.storage == Storage::kF32) {
      if (source.type == GgmlType::kF32) return add_mapped(spec.name, DType::kF32, source);
      if (!has_decoder(source.type)) return refuse(source);
      add_made(spec.name, DType::kF32, source.shape, source, floats_of(rows));
    } else {
      if (source.type == GgmlType::kI64) return add_mapped(spec.name, DType::kI64, source);
      if (source.type != GgmlType::kI32) return refuse(source);
      add_made(spec.name, DType::kI64, source.shape, source, ids_of(rows));
    }
  }

  static BlockRows whole_rows(const GgufTensor& source) {
    const std::int64_t cols = source.shape.empty() ? 1 : source.shape.back();
    const std::int64_t bytes = blocks_bytes(source.type, cols);
    return {source.type, source.bytes.data(), cols == 0 ? 0 : source.num_elements() / cols, cols, bytes,
            bytes};
  }

  /// Nothing, and a tensor of the wrong shape for `mismatches`, where the matrix is not in `source`.
  std::optional<BlockRows> matrix_rows(const TensorSpec& spec, const GgufTensor& source) {
    const bool is_stacked = spec.expert >= 0;
    const bool is_half = spec.name.ends_with(".e_proj") || spec.name.ends_with(".h_proj");
    const std::int64_t unit = ggml_type_traits(source.type).block_elements;
    std::vector<std::int64_t> wanted = spec.shape;
    if (is_half) wanted[1] *= 2;
    if (is_stacked) wanted.insert(wanted.begin(), source.shape.empty() ? 0 : source.shape[0]);
    if (source.shape != wanted || (is_stacked && spec.expert >= wanted[0]) || spec.shape[1] % unit != 0) {
      if (!is_stacked || spec.expert == 0) add_unknown(source);
      return std::nullopt;
    }
    BlockRows rows = whole_rows(source);
    rows.rows = spec.shape[0];
    rows.cols = spec.shape[1];
    rows.row_bytes = blocks_bytes(source.type, rows.cols);
    if (is_stacked) rows.first += spec.expert * rows.rows * rows.stride;
    if (spec.name.ends_with(".h_proj")) rows.first += rows.row_bytes;
    return rows;
  }

  void add_matrix(const TensorSpec& spec, const GgufTensor& source, const BlockRows& rows) {
    const std::string weight = spec.name + ".weight", scale = spec.name + ".scale";
    const std::int64_t groups = rows.cols / 32;
    if (spec.storage == Storage::kExpert) note_experts(source);
    switch (source.type) {
      case GgmlType::kMxfp4:
        add_made(weight, DType::kI8, {rows.rows, rows.cols / 2}, source,
                 by_rows(rows, rows.cols / 2, unpack_mxfp4_codes));
        add_made(scale, DType::kF8E8M0, {rows.rows, groups}, source,
                 by_rows(rows, groups, unpack_mxfp4_scales));
        return;
      case GgmlType::kQ8_0:
        add_made(weight, DType::kI8, {rows.rows, rows.cols}, source,
                 by_rows(rows, rows.cols, unpack_q8_0_codes));
        add_made(scale, DType::kF32, {rows.rows, groups}, source,
                 by_rows(rows, groups * std::int64_t{sizeof(float)},
                         [](auto row, auto to) { unpack_q8_0_scales(row, elements<float>(to)); }));
        return;
      case GgmlType::kBF16:
      case GgmlType::kF32:
        if (rows.stride == rows.row_bytes) {
          const bool is_f32 = source.type == GgmlType::kF32;
          add_tensor(weight, is_f32 ? DType::kF32 : DType::kBF16, {rows.rows, rows.cols}, source,
                     {rows.first, static_cast<std::size_t>(rows.rows * rows.stride)});
        } else if (source.type == GgmlType::kBF16) {
          add_made(weight, DType::kBF16, {rows.rows, rows.cols}, source, bf16_of(rows));
        } else {
          add_made(weight, DType::kF32, {rows.rows, rows.cols}, source, floats_of(rows));
        }
        return;
      default:
        if (!has_decoder(source.type)) return refuse(source);
        if (why_not_.empty() && source.type != GgmlType::kF16) {
          why_not_ = fmt::format(
              "{} is {}; computed as they are stored are MXFP4 and Q8_0, BF16, F16 and F32: `baleen convert "
              "FILE FOLDER` writes a checkpoint that runs, and says what of the values is lost",
              source.name, source.type_text());
        }
        add_made(weight, DType::kF32, {rows.rows, rows.cols}, source, floats_of(rows));
    }
  }

  /// Kernels take the experts of all layers in one format.
  void note_experts(const GgufTensor& source) {
    if (first_experts_ == nullptr) first_experts_ = &source;
    if (first_experts_->type == source.type || !why_not_.empty()) return;
    why_not_ = fmt::format(
        "{} is {} and {} is {}; experts of one format run: `baleen convert FILE FOLDER` with ‹expert format› "
        "fp8 "
        "writes them so, and says what of the values is lost",
        first_experts_->name, first_experts_->type_text(), source.name, source.type_text());
  }

  void add_copy(std::int64_t block, std::string_view name) {
    const GgufTensor* const source = model_->find(fmt::format("blk.{}.{}", block, block_.find(name)->second));
    if (source == nullptr) return;
    used_.insert(source->name);
    add_tensor(block_prefix(config_, block) + std::string(name), DType::kU8, {std::ssize(source->bytes)},
               *source, source->bytes);
  }

  void add_unknown(const GgufTensor& tensor) {
    if (tensor.name.starts_with("mtp.") || tensor.name.starts_with("dspark.")) {
      of_ds4_.is_draft_head = true;
      of_ds4_.what = "of a draft head under ds4's names (mtp.*, dspark.*)";
      ++of_ds4_.num_tensors;
      of_ds4_.bytes += std::ssize(tensor.bytes);
      return;
    }
    add_tensor(tensor.name, DType::kU8, {std::ssize(tensor.bytes)}, tensor, tensor.bytes);
    tensors_.back().name = fmt::format("{} ({})", tensor.name, tensor.type_text());
  }

  [[noreturn]] static void refuse(const GgufTensor& source) {
    fail("{}: tensor {} is {}, a type that baleen does not read; take a file of another quantisation",
         source.file, quoted_text(source.name, 200), source.type_text());
  }

  void add_mapped(const std::string& name, DType dtype, const GgufTensor& source) {
    add_tensor(name, dtype, source.shape, source, source.bytes);
  }
  void add_made(std::string name, DType dtype, std::vector<std::int64_t> shape, const GgufTensor& source,
                MadeBytes::Piece piece) {
    of_pieces_.emplace_back(tensors_.size(), pieces_.size());
    pieces_.push_back(std::move(piece));
    add_tensor(std::move(name), dtype, std::move(shape), source, {});
  }
  void add_tensor(std::string name, DType dtype, std::vector<std::int64_t> shape, const GgufTensor& source,
                  std::span<const std::byte> bytes) {
    TensorInfo& tensor = tensors_.emplace_back();
    tensor.name = std::move(name);
    tensor.dtype = dtype;
    tensor.shape = std::move(shape);
    tensor.bytes = bytes;
    tensor.file = source.file;
  }

  std::shared_ptr<const GgufModel> model_;
  const ModelConfig& config_;
  GgufBlocks blocks_;
  std::map<std::string_view, std::string_view> top_, block_;
  std::vector<TensorInfo> tensors_;
  std::vector<MadeBytes::Piece> pieces_;
  std::vector<std::pair<std::size_t, std::size_t>> of_pieces_;  ///< a tensor, its piece
  std::unordered_set<std::string_view> used_;
  const GgufTensor* first_experts_ = nullptr;
  std::string why_not_;
  LeftOut of_ds4_;
  std::map<std::string, std::int64_t> rounded_;  ///< tensors that become BF16, by their type
};

/// What says that a file is of 0731 or 0813; empty: nothing does.
std::string sign_of_later_release(const GgufModel& model, const ModelConfig& config) {
  for (const char* key : {"general.name", "general.basename", "general.base_model.0.name"}) {
    const auto name = model.keys().text(key);
    if (name &&
        (name->find("0731") != std::string_view::npos || name->find("0813") != std::string_view::npos))
      return fmt::format("{} is {}", key, quoted_text(*name));
  }
  constexpr std::int64_t kStages = 3;
  const std::int64_t ratios = std::ssize(config.compress_ratios);
  if (ratios < config.num_hidden_layers + kStages) return "";
  return fmt::format("{} compress_ratios for {} layers, as 0731, 0813 and the DSpark releases have", ratios,
                     config.num_hidden_layers);
}

/// Of the first of some matrices.
void describe(const Builder& tensors, const std::vector<TensorSpec>& table, std::string_view stem,
              MatrixKind& kind) {
  const auto spec = std::ranges::find(table, stem, &TensorSpec::name);
  const GgufTensor* const source = spec == table.end() ? nullptr : tensors.source_of(*spec);
  if (source == nullptr) return;
  kind.stored_as = ggml_type_traits(source->type).name;
  kind.evidence = fmt::format("{}: {}", source->name, source->type_text());
}

}  // namespace

GgufCheckpoint open_gguf(const std::filesystem::path& path) {
  const auto model = std::make_shared<const GgufModel>(path);
  const GgufBlocks blocks = gguf_blocks(*model);
  const ModelConfig config = gguf_config(*model, blocks);
  const std::string text = config_text(config);
  static_cast<void>(parse_config(text, model->path().string(), DraftBlocks{DraftKind::kMtp, blocks.num_mtp}));
  Builder tensors(model, config, blocks);
  tensors.build();
  Checkpoint checkpoint = tensors.take();
  CheckpointKind kind = detect_kind(checkpoint, text);
  kind.release.evidence = "key general.architecture: \"deepseek4\"";
  kind.names = {TensorNames::kGguf, "as \"blk.0.attn_q_a.weight\""};
  const std::vector<TensorSpec> table = tensor_table(config);
  describe(tensors, table, "layers.0.ffn.experts.0.w1", kind.experts);
  describe(tensors, table, "layers.0.attn.wq_a", kind.dense);
  describe(tensors, table, "mtp.0.ffn.experts.0.w1", kind.draft_experts);
  describe(tensors, table, "mtp.0.attn.wq_a", kind.draft_dense);
  kind.contradictions.clear();
  if (const std::string sign = sign_of_later_release(*model, config);
      !sign.empty() && kind.prompts.profile.value.format == PromptFormat::kPreview &&
      !kind.prompts.is_assumed) {
    kind.contradictions.push_back(
        fmt::format("the file's chat template is the preview's ({}), and {}: of 0731 and 0813 the efforts "
                    "are others, which "
                    "‹prompt profile› official takes",
                    kind.prompts.profile.evidence, sign));
  }
  for (const auto& [type, count] : tensors.rounded()) {
    kind.contradictions.push_back(
        fmt::format("{} tensor{} in {} that the model has in BF16: rounded to that where they hold more",
                    count, count == 1 ? "" : "s", type));
  }
  if (tensors.of_ds4().num_tensors > 0) kind.left_out.push_back(tensors.of_ds4());
  kind.published = published_release(nlohmann::ordered_json(parse_ordered_json(text).value()), kind);
  kind.converts = kind.why_not.empty();
  if (kind.converts) kind.why_not = tensors.why_not();
  return {text, std::move(checkpoint), std::move(kind)};
}

}  // namespace baleen
