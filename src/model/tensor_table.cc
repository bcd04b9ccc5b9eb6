#include "model/tensor_table.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <numeric>
#include <unordered_set>

#include "base/check.h"
#include "base/error.h"
#include "model/checkpoint_kind.h"
#include "model/matrix_kind.h"

namespace baleen {
namespace {

// A member of an object, for `TensorPlace`.
#define AT(member) \
  [](auto& object) -> auto& { return object.member; }

constexpr auto kInTree = [](auto& tree, std::int64_t, std::int64_t) -> auto& { return tree; };
constexpr auto kInBlock = [](auto& tree, std::int64_t block, std::int64_t) -> auto& {
  return tree.blocks[static_cast<std::size_t>(block)];
};
constexpr auto kInExpert = [](auto& tree, std::int64_t block, std::int64_t expert) -> auto& {
  return tree.blocks[static_cast<std::size_t>(block)].moe.routed[static_cast<std::size_t>(expert)];
};
/// Blocks of a draft head are the last ones.
constexpr auto kInDraftBlock = [](auto& tree, std::int64_t block, std::int64_t) -> auto& {
  return tree.drafts[static_cast<std::size_t>(block) - (tree.blocks.size() - tree.drafts.size())];
};

/// A name that is a part of a type.
template <std::size_t kSize>
struct StaticName {
  char text[kSize];
  consteval StaticName(const char (&name)[kSize]) { std::ranges::copy(name, text); }  // NOLINT: implicit
};

// What a draft head's block has under a name.
template <StaticName kName>
constexpr auto kDraftMatrix = [](auto& block) -> auto& {
  return block.matrices[kName.text];
};
template <StaticName kName>
constexpr auto kDraftVector = [](auto& block) -> auto& {
  return block.vectors[kName.text];
};
template <StaticName kName>
constexpr auto kDraftMixing = [](auto& block) -> auto& {
  return block.mixings[kName.text];
};

/// The member of a member.
template <class Outer, class Inner>
auto then(Outer /*outer*/, Inner /*inner*/) {
  return [](auto& object) -> auto& { return Inner{}(Outer{}(object)); };
}

/// Appends the tensors of one block, or of the top level, under a name prefix.
class TableBuilder {
 public:
  TableBuilder(const RankConfig& rank, ExpertRows experts)
      : rank_(rank), c_(rank.model()), experts_(experts) {}

  std::vector<TensorSpec> build() {
    reserve();
    if (rank_.share().embedding) {
      add("embed.weight", {c_.vocab_size, c_.hidden_size}, Storage::kBf16, TensorRole::kEmbedding, kInTree,
          AT(embedding));
    }
    for (block_ = 0; block_ < rank_.num_layers(); ++block_) {
      prefix_ = block_prefix(c_, rank_.model_block(block_));
      add_block();
    }
    block_ = -1;
    prefix_.clear();
    if (rank_.share().head) {
      if (c_.family->has_head_mixing) add_head_mixing(kInTree, AT(hc_head));
      add_norm("norm", c_.hidden_size, kInTree, AT(norm));
      add("head.weight", {c_.vocab_size, c_.hidden_size}, Storage::kBf16, TensorRole::kHead, kInTree,
          AT(head), TensorSplit::kVocabulary);
    }
    for (block_ = rank_.num_layers(); block_ < rank_.num_blocks(); ++block_) {
      prefix_ = block_prefix(c_, rank_.model_block(block_));
      add_block();
      if (c_.draft_kind == DraftKind::kDspark) {
        add_dspark_extras(block_ - rank_.num_layers());
      } else {
        add_mtp_extras();
      }
    }
    return std::move(table_);
  }

 private:
  using Shape = std::vector<std::int64_t>;

  void reserve() {
    constexpr std::int64_t kMaxBesideExperts = 40;  // a ratio-4 layer has 25, the MTP block 27
    table_.reserve(static_cast<std::size_t>(rank_.num_blocks() * (kMaxBesideExperts + 3 * experts_.listed)));
  }

  template <class Owner, class Member>
  TensorSpec& add(std::string_view name, Shape shape, Storage storage, TensorRole role, Owner owner,
                  Member member, TensorSplit split = TensorSplit::kReplicated) {
    return table_.emplace_back(TensorSpec{.name = fmt::format("{}{}", prefix_, name),
                                          .shape = rank_shape(std::move(shape), split, rank_.share()),
                                          .storage = storage,
                                          .role = role,
                                          .block = block_,
                                          .of_draft_head = block_ >= rank_.num_layers(),
                                          .split = split,
                                          .expert = expert_,
                                          .count = expert_ < 0 ? 1 : experts_of_block().each,
                                          .place = TensorPlace::of(owner, member)});
  }
  template <class Owner, class Member>
  void add_norm(std::string_view name, std::int64_t width, Owner owner, Member member,
                TensorRole role = TensorRole::kNorm) {
    add(fmt::format("{}.weight", name), {width}, Storage::kBf16, role, owner, member).kind =
        TensorKind::kNorm;
  }

  /// What has no place in a tree.
  void add_unread(std::string_view name, Shape shape, Storage storage, TensorRole role) {
    table_.emplace_back(TensorSpec{.name = fmt::format("{}{}", prefix_, name),
                                   .shape = std::move(shape),
                                   .storage = storage,
                                   .role = role,
                                   .block = block_,
                                   .of_draft_head = block_ >= rank_.num_layers()});
  }
  [[nodiscard]] std::int64_t num_routed_experts() const {
    return c_.num_routed_experts(rank_.model_block(block_));
  }
  /// A draft head's blocks may have fewer experts than the layers.
  [[nodiscard]] ExpertRows experts_of_block() const {
    const std::int64_t have = rank_.share().num_experts(num_routed_experts());
    return {.listed = std::min(experts_.listed, have), .each = std::min(experts_.each, have)};
  }

  void add_block() {
    add_engram();
    add_block_mixing("hc_attn", 0, AT(hc_attn));
    add_norm("attn_norm", c_.hidden_size, kInBlock, AT(attn_norm));
    add_attention();
    add_block_mixing("hc_ffn", 1, AT(hc_ffn));
    add_norm("ffn_norm", c_.hidden_size, kInBlock, AT(ffn_norm));
    add_experts();
  }

  /// `rows` of each matrix, which has a scale; `site`: by it training spreads what mixings read over streams.
  template <class Owner, class Mixing>
  void add_mixing(std::string_view name, const Shape& rows, std::int64_t site, Owner owner, Mixing mixing) {
    const TensorRole role = TensorRole::kHyperConnection;
    const std::int64_t num_mixes = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
    add(fmt::format("{}_fn", name), {num_mixes, c_.hc_dim()}, Storage::kF32, role, owner,
        then(mixing, AT(fn)))
        .matrix_rows = rows;
    TensorSpec& base =
        add(fmt::format("{}_base", name), {num_mixes}, Storage::kF32, role, owner, then(mixing, AT(base)));
    base.kind = TensorKind::kMixingBias;
    base.stream = site % c_.hc_mult;
    add(fmt::format("{}_scale", name), {std::ssize(rows)}, Storage::kF32, role, owner,
        then(mixing, AT(scale)))
        .kind = TensorKind::kMixingScale;
  }
  /// Before a half-block: to read, to write, and between streams.
  template <class Mixing>
  void add_block_mixing(std::string_view name, std::int64_t half, Mixing mixing) {
    const std::int64_t n = c_.hc_mult;
    add_mixing(name, {n, n, n * n}, 2 * rank_.model_block(block_) + half, kInBlock, mixing);
  }
  template <class Owner, class Mixing>
  void add_head_mixing(Owner owner, Mixing mixing) {
    add_mixing("hc_head", {c_.hc_mult}, block_ < 0 ? 0 : 2 * rank_.model_block(block_), owner, mixing);
  }

  /// `rows` as matrices of `each` rows.
  static std::vector<std::int64_t> equal_matrices(std::int64_t rows, std::int64_t each) {
    return std::vector<std::int64_t>(static_cast<std::size_t>(rows / each), each);
  }

  void add_attention() {
    const TensorRole role = TensorRole::kAttention;
    add("attn.attn_sink", {c_.num_attention_heads}, Storage::kF32, role, kInBlock, AT(attention.sink),
        TensorSplit::kHeads)
        .kind = TensorKind::kSink;
    add("attn.wq_a", {c_.q_lora_rank, c_.hidden_size}, Storage::kDense, role, kInBlock, AT(attention.wq_a));
    add_norm("attn.q_norm", c_.q_lora_rank, kInBlock, AT(attention.q_norm));
    add("attn.wq_b", {c_.q_dim(), c_.q_lora_rank}, Storage::kDense, role, kInBlock, AT(attention.wq_b),
        TensorSplit::kHeads);
    add("attn.wkv", {c_.head_dim, c_.hidden_size}, Storage::kDense, role, kInBlock, AT(attention.wkv));
    add_norm("attn.kv_norm", c_.head_dim, kInBlock, AT(attention.kv_norm));
    add("attn.wo_a", {c_.o_dim(), c_.group_dim()}, Storage::kDense, role, kInBlock, AT(attention.wo_a),
        TensorSplit::kOutputGroups)
        .matrix_rows = equal_matrices(c_.o_dim(), c_.o_lora_rank);
    add("attn.wo_b", {c_.hidden_size, c_.o_dim()}, Storage::kDense, role, kInBlock, AT(attention.wo_b),
        TensorSplit::kGroupColumns);
    const LayerAttention shape = rank_.attention(block_);
    if (shape.entry_form == EntryForm::kLatent) {
      if (shape.makes_entries()) add_latent(shape);
    } else if (shape.compresses()) {
      add_compressor("attn.compressor", shape, c_.head_dim, TensorRole::kCompressor,
                     AT(attention.compressor));
    }
    if (shape.selects()) add_indexer(shape);
  }

  /// Entries, of ratio 2 with gates, and index keys made of them.
  void add_latent(const LayerAttention& shape) {
    const TensorRole role = TensorRole::kCompressor;
    const Shape projection = {c_.head_dim, c_.hidden_size};
    add("attn.compressor.wkv.weight", projection, Storage::kBf16, role, kInBlock,
        AT(attention.compressor.wkv));
    if (shape.ratio > 1) {
      add("attn.compressor.wgate.weight", projection, Storage::kBf16, role, kInBlock,
          AT(attention.compressor.wgate))
          .kind = TensorKind::kGate;
    }
    add_norm("attn.compressor.norm", c_.head_dim, kInBlock, AT(attention.compressor.norm), role);
    add("attn.indexer.wk.weight", {c_.index_head_dim, c_.head_dim}, Storage::kBf16, TensorRole::kIndexer,
        kInBlock, AT(attention.indexer.wk));
    add_norm("attn.indexer.k_norm", c_.index_head_dim, kInBlock, AT(attention.indexer.k_norm),
             TensorRole::kIndexer);
  }

  /// A table of rows, and what makes keys and a value for the residual streams of those that a token reads.
  void add_engram() {
    const auto table = c_.engram_table(rank_.model_block(block_));
    if (!table) return;
    const EngramConfig& engram = *c_.engram;
    const TensorRole role = TensorRole::kEngramProjection;
    add_unread("engram.embed", {engram.num_embeddings[*table], engram.head_dim}, Storage::kFp8Rows,
               TensorRole::kEngramTable);
    const std::int64_t num_projected = (c_.hc_mult + 1) * c_.hidden_size;
    add("engram.wkv", {num_projected, engram.num_hashes() * engram.head_dim}, Storage::kDense, role, kInBlock,
        AT(engram.wkv))
        .matrix_rows = equal_matrices(num_projected, c_.hidden_size);
    const Shape of_streams = {c_.hc_mult, c_.hidden_size};
    add("engram.q_weight", of_streams, Storage::kBf16, role, kInBlock, AT(engram.q_weight)).kind =
        TensorKind::kNorm;
    add("engram.k_weight", of_streams, Storage::kBf16, role, kInBlock, AT(engram.k_weight)).kind =
        TensorKind::kNorm;
  }

  void add_indexer(const LayerAttention& shape) {
    const TensorRole role = TensorRole::kIndexer;
    add("attn.indexer.wq_b", {c_.index_q_dim(), c_.q_lora_rank}, Storage::kDense, role, kInBlock,
        AT(attention.indexer.wq_b));
    add("attn.indexer.weights_proj.weight", {c_.index_n_heads, c_.hidden_size}, Storage::kBf16, role,
        kInBlock, AT(attention.indexer.weights_proj));
    if (shape.compresses() && shape.entry_form == EntryForm::kPooled) {
      add_compressor("attn.indexer.compressor", shape, c_.index_head_dim, role,
                     AT(attention.indexer.compressor));
    }
  }

  /// Where entries overlap, a token serves its own entry and the next one, with separate columns for each.
  template <class Compressor>
  void add_compressor(std::string_view name, const LayerAttention& shape, std::int64_t width, TensorRole role,
                      Compressor compressor) {
    const std::int64_t columns = shape.compressor_columns(width);
    add(fmt::format("{}.ape", name), {shape.ratio, columns}, Storage::kF32, role, kInBlock,
        then(compressor, AT(ape)))
        .kind = TensorKind::kPositionBias;
    add(fmt::format("{}.wkv.weight", name), {columns, c_.hidden_size}, Storage::kBf16, role, kInBlock,
        then(compressor, AT(wkv)))
        .matrix_rows = equal_matrices(columns, width);
    TensorSpec& gate = add(fmt::format("{}.wgate.weight", name), {columns, c_.hidden_size}, Storage::kBf16,
                           role, kInBlock, then(compressor, AT(wgate)));
    gate.kind = TensorKind::kGate;
    gate.matrix_rows = equal_matrices(columns, width);
    add_norm(fmt::format("{}.norm", name), width, kInBlock, then(compressor, AT(norm)), role);
  }

  void add_experts() {
    const TensorRole role = TensorRole::kRouter;
    add("ffn.gate.weight", {num_routed_experts(), c_.hidden_size}, Storage::kBf16, role, kInBlock,
        AT(moe.gate))
        .kind = TensorKind::kGate;
    if (rank_.is_hash_routed(block_)) {
      add("ffn.gate.tid2eid", {c_.vocab_size, c_.num_experts_per_tok}, Storage::kI64, role, kInBlock,
          AT(moe.hash_table))
          .kind = TensorKind::kIds;
    } else {
      add("ffn.gate.bias", {num_routed_experts()}, Storage::kF32, role, kInBlock, AT(moe.bias)).kind =
          TensorKind::kRoutingBias;
    }
    add_swiglu("ffn.shared_experts", Storage::kDense, TensorRole::kSharedExpert, kInBlock, AT(moe.shared),
               TensorSplit::kSharedRows, TensorSplit::kSharedColumns);
    for (expert_ = 0; expert_ < experts_of_block().listed; ++expert_) {
      add_swiglu(
          fmt::format("ffn.experts.{}", expert_), Storage::kExpert, TensorRole::kRoutedExpert, kInExpert,
          [](auto& expert) -> auto& { return expert; }, TensorSplit::kExpertRows,
          TensorSplit::kExpertColumns);
    }
    expert_ = -1;
  }

  template <class Owner, class Expert>
  void add_swiglu(std::string_view name, Storage storage, TensorRole role, Owner owner, Expert expert,
                  TensorSplit rows, TensorSplit columns) {
    const Shape up = {c_.moe_intermediate_size, c_.hidden_size};
    const Shape down = {c_.hidden_size, c_.moe_intermediate_size};
    add(fmt::format("{}.w1", name), up, storage, role, owner, then(expert, AT(w1)), rows);
    add(fmt::format("{}.w2", name), down, storage, role, owner, then(expert, AT(w2)), columns);
    add(fmt::format("{}.w3", name), up, storage, role, owner, then(expert, AT(w3)), rows);
  }

  void add_mtp_extras() {
    const Shape square = {c_.hidden_size, c_.hidden_size};
    add_draft_matrix<"e_proj">(square);
    add_draft_matrix<"h_proj">(square);
    add_draft_norm<"enorm">();
    add_draft_norm<"hnorm">();
    add_draft_norm<"norm">();
    add_head_mixing(kInDraftBlock, kDraftMixing<"hc_head">);
  }

  /// The first stage takes up streams of the main layers, the last one predicts: its logits get the Markov
  /// head's. Every rank has these whole: reading them takes less time than gathering parts of logits.
  void add_dspark_extras(std::int64_t stage) {
    if (stage == 0) {
      const auto num_targets = static_cast<std::int64_t>(c_.dspark.target_layer_ids.size());
      add_draft_matrix<"main_proj">({c_.hidden_size, num_targets * c_.hidden_size});
      add_draft_norm<"main_norm">();
    }
    if (stage + 1 < c_.num_draft_blocks()) return;
    add_draft_norm<"norm">();
    if (c_.family->has_head_mixing) add_head_mixing(kInDraftBlock, kDraftMixing<"hc_head">);
    const auto [embedding, head] = c_.family->markov_names;
    add_markov(embedding, kDraftMatrix<"markov_head.markov_w1">);
    add_markov(head, kDraftMatrix<"markov_head.markov_w2">);
    add("confidence_head.proj.weight", {1, c_.hidden_size + c_.dspark.markov_rank}, Storage::kBf16,
        TensorRole::kDraftProjection, kInDraftBlock, kDraftVector<"confidence_head.proj">);
  }

  template <StaticName kName>
  void add_draft_matrix(const Shape& shape) {
    add(kName.text, shape, Storage::kDense, TensorRole::kDraftProjection, kInDraftBlock, kDraftMatrix<kName>);
  }
  /// Found by the same name in the tree, whatever the file calls it.
  template <class Member>
  void add_markov(std::string_view name, Member member) {
    add(fmt::format("markov_head.{}.weight", name), {c_.vocab_size, c_.dspark.markov_rank}, Storage::kBf16,
        TensorRole::kDraftProjection, kInDraftBlock, member);
  }
  template <StaticName kName>
  void add_draft_norm() {
    add_norm(kName.text, c_.hidden_size, kInDraftBlock, kDraftVector<kName>);
  }

  const RankConfig& rank_;
  const ModelConfig& c_;
  ExpertRows experts_;
  std::vector<TensorSpec> table_;
  std::string prefix_;
  std::int64_t block_ = -1, expert_ = -1;
};

#undef AT

/// What the tensors say; where they are missing or foreign, `otherwise`. `fp8`: what FP8 is where its blocks
/// are not known.
StoredFormat detect(const Checkpoint& checkpoint, const std::string& stem, StoredFormat otherwise,
                    WeightFormat fp8) {
  const MatrixKind kind = matrix_kind(checkpoint, stem);
  auto format = kind.weight_format();
  if (!format) return otherwise;
  if (is_fp8(*format) && !kind.has_known_blocks()) format = fp8;
  return {*format, kind.scale == DType::kF32 ? DType::kF32 : DType::kF8E8M0};
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

StoredFormat StorageFormats::stored(const TensorSpec& tensor) const {
  if (!single.empty())
    if (const auto found = single.find(tensor.name); found != single.end()) return found->second;
  const bool is_expert = tensor.storage == Storage::kExpert;
  const std::optional<StoredFormat>& own = is_expert ? draft_experts : draft_dense;
  if (tensor.of_draft_head && own) return *own;
  return is_expert ? StoredFormat{experts, expert_scale} : StoredFormat{dense, dense_scale};
}

namespace {

std::vector<TensorSpec> built_table(const RankConfig& rank, ExpertRows experts) {
  return TableBuilder(rank, experts).build();
}

}  // namespace

const ModelFamily kDeepSeekV4{.tensors = built_table};
const ModelFamily kDeepSeekV41{.tensors = built_table,
                               .name = "DeepSeek-V4.1",
                               .has_head_mixing = false,
                               .norms_queries = false,
                               .routing_sum_eps = 1e-20,
                               .drafts_from_inputs = true,
                               .has_grouped_rows = true,
                               .fp8_format = WeightFormat::kFp8x32,
                               .activation_group = kSmallActivationGroup,
                               .markov_names = {"embed", "head"}};

std::string_view tensor_role_name(TensorRole role) {
  switch (role) {
    case TensorRole::kEmbedding:
      return "embedding";
    case TensorRole::kHead:
      return "head";
    case TensorRole::kNorm:
      return "norms";
    case TensorRole::kHyperConnection:
      return "hyper-connections";
    case TensorRole::kAttention:
      return "attention";
    case TensorRole::kCompressor:
      return "compressors";
    case TensorRole::kIndexer:
      return "indexers";
    case TensorRole::kRouter:
      return "routers";
    case TensorRole::kSharedExpert:
      return "shared experts";
    case TensorRole::kRoutedExpert:
      return "routed experts";
    case TensorRole::kDraftProjection:
      return "draft head's own";
    case TensorRole::kEngramTable:
      return "Engram tables";
    case TensorRole::kEngramProjection:
      return "Engram projections";
  }
  return "?";
}

std::vector<TensorSpec> tensor_table(const ModelConfig& config) {
  return config.family->tensors(config, {.listed = config.n_routed_experts});
}

std::vector<TensorSpec> rank_table(const RankConfig& rank) {
  return rank.model().family->tensors(rank, {.listed = 1, .each = rank.num_experts()});
}

std::string block_prefix(const ModelConfig& config, std::int64_t block) {
  return config.is_draft_block(block) ? fmt::format("mtp.{}.", block - config.num_hidden_layers)
                                      : fmt::format("layers.{}.", block);
}

std::vector<TensorHeader> stored_tensors(const TensorSpec& tensor, const StorageFormats& formats) {
  if (tensor.storage == Storage::kFp8Rows) {
    constexpr std::int64_t kColumns = 32;  // that share a scale
    return {{tensor.name + ".weight", DType::kF8E4M3, tensor.shape},
            {tensor.name + ".scale",
             DType::kF8E8M0,
             {tensor.shape[0], (tensor.shape[1] + kColumns - 1) / kColumns}}};
  }
  if (!tensor.is_matrix()) {
    const DType dtype = tensor.storage == Storage::kBf16  ? DType::kBF16
                        : tensor.storage == Storage::kF32 ? DType::kF32
                                                          : DType::kI64;
    return {{tensor.name, dtype, tensor.shape}};
  }
  const WeightFormat format = formats.of(tensor);
  const FormatLayout lies = format_layout(format);
  BALEEN_CHECK(format != WeightFormat::kInt8);  // in no file
  const DType dtype = format == WeightFormat::kF32     ? DType::kF32
                      : format == WeightFormat::kBF16  ? DType::kBF16
                      : is_fp8(format)                 ? DType::kF8E4M3
                      : format == WeightFormat::kNvfp4 ? DType::kU8
                                                       : DType::kI8;
  std::vector<TensorHeader> stored = {
      {tensor.name + ".weight",
       dtype,
       {tensor.shape[0], lies.row_bytes(tensor.shape[1]) / dtype_bytes(dtype)}}};
  if (lies.scale_bytes > 0) {
    stored.push_back({tensor.name + (format == WeightFormat::kNvfp4 ? ".weight_scale" : ".scale"),
                      formats.scale_of(tensor),
                      {lies.scales_down(tensor.shape[0]), lies.scales_across(tensor.shape[1])}});
  }
  if (lies.matrix_scale_bytes > 0) stored.push_back({tensor.name + ".weight_scale_2", DType::kF32, {}});
  return stored;
}

std::vector<HeldArray> held_arrays(const TensorSpec& tensor, const StorageFormats& formats) {
  std::vector<HeldArray> arrays;
  for (TensorHeader& stored : stored_tensors(tensor, formats)) {
    const Holding holding = tensor.place.holding();
    const bool is_scale = !arrays.empty();
    DType dtype = stored.dtype;
    if (holding == Holding::kFloats) dtype = DType::kF32;
    if (holding == Holding::kIds) dtype = DType::kI32;
    if (is_scale && tensor.is_matrix() && formats.of(tensor) == WeightFormat::kFp8) dtype = DType::kF32;
    const bool any_address = holding == Holding::kMatrix && !is_scale;
    arrays.push_back({std::move(stored), dtype, any_address ? 1 : dtype_bytes(dtype)});
  }
  return arrays;
}

std::int64_t stored_bytes(const std::vector<TensorSpec>& table, const StorageFormats& formats) {
  std::int64_t bytes = 0;
  for (const TensorSpec& spec : table) {
    for (const TensorHeader& tensor : stored_tensors(spec, formats))
      bytes += spec.count * tensor.size_bytes();
  }
  return bytes;
}

StorageFormats detect_formats(const ModelConfig& config, const Checkpoint& checkpoint) {
  const auto detected = [&](const std::string& stem, const StoredFormat& otherwise) {
    return detect(checkpoint, stem, otherwise, config.fp8_format());
  };
  const StoredFormat dense = detected("layers.0.attn.wq_a", {.weight = config.dense_format});
  const StoredFormat experts = detected("layers.0.ffn.experts.0.w1", {.weight = config.expert_format});
  StorageFormats formats{.dense = dense.weight,
                         .experts = experts.weight,
                         .dense_scale = dense.scale,
                         .expert_scale = experts.scale};
  formats.made = checkpoint.made() != nullptr;
  if (config.num_draft_blocks() > 0) {
    const StoredFormat draft_dense = detected("mtp.0.attn.wq_a", dense);
    const StoredFormat draft_experts = detected("mtp.0.ffn.experts.0.w1", experts);
    if (draft_dense != dense) formats.draft_dense = draft_dense;
    if (draft_experts != experts) formats.draft_experts = draft_experts;
  }
  if (checkpoint.is_foreign()) {
    std::map<std::string, StoredFormat, std::less<>>
        of_first;  // of a layer's experts, which lie in one tensor
    for (const TensorSpec& spec : tensor_table(config)) {
      if (!spec.is_matrix()) continue;
      const std::string matrix = spec.name.substr(spec.name.rfind('.'));
      const StoredFormat own =
          spec.expert > 0 ? of_first.at(matrix) : detected(spec.name, formats.stored(spec));
      if (spec.expert == 0) of_first.insert_or_assign(matrix, own);
      if (own != formats.stored(spec)) formats.single.emplace(spec.name, own);
    }
  }
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
    if (!known.contains(tensor.name) && !is_left_out(tensor.name, config.num_draft_blocks())) {
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
  std::error_code ignored;
  const bool has_keys =
      checkpoint.is_foreign() && !std::filesystem::is_directory(checkpoint.folder(), ignored);
  fail("{}: {} and tensors do not fit together; `baleen inspect` lists everything.{}",
       checkpoint.folder().string(), has_keys ? "keys" : "config.json", shown);
}

}  // namespace baleen
