#include "drafts/dspark/dspark_head.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "model/model_family.h"
#include "ops/operations.h"

namespace baleen {
namespace {

RowPair pair(std::int64_t from, std::int64_t to) {
  return {static_cast<std::int32_t>(from), static_cast<std::int32_t>(to)};
}

/// What the head's arrays are for.
struct BlockSizes {
  std::int64_t block = 0;       ///< rows of one sequence's draft
  std::int64_t kept = 0;        ///< rows whose drafts may be wanted
  std::int64_t block_rows = 0;  ///< most rows of one pass over the blocks
  std::int64_t kept_rows = 0;   ///< sum over sequences

  BlockSizes(const ModelConfig& config, const DraftSizes& sizes)
      : block(config.dspark.block_size),
        kept(std::min(sizes.max_draft_tokens, block)),
        block_rows(kept > 0 ? sizes.max_rows : 0),
        kept_rows(sizes.max_sequences * kept) {}
};

/// Arrays of a head, allocated or only counted.
class Arrays {
 public:
  Arrays(const RankConfig& rank, const DraftSizes& sizes, Arena* arena) : type_(sizes.type), arena_(arena) {
    const ModelConfig& config = rank.model();
    const BlockSizes rows(config, sizes);
    means = take(sizes.max_rows, std::ssize(config.dspark.target_layer_ids) * config.hidden_size, type_);
    if (!rank.stage().last || rows.kept == 0) return;
    collapsed = take(rows.block_rows, config.hidden_size, type_);
    hidden = take(rows.kept_rows, config.hidden_size, type_);
    logits = take(rows.kept_rows, config.vocab_size, ElementType::kF32);
    link_hidden = take(sizes.max_sequences, config.hidden_size, type_);
  }

  Activations<2> means;        ///< [max_rows, m d] of the latest step
  Activations<2> collapsed;    ///< [max_rows, d] x of the latest pass over the blocks
  Activations<2> hidden;       ///< [sequences x kept, d] x of rows whose drafts may be wanted
  Activations<2> logits;       ///< [sequences x kept, V] of them, without w2 w1
  Activations<2> link_hidden;  ///< [max_sequences, d] x of one depth
  std::int64_t bytes = 0;

 private:
  Activations<2> take(std::int64_t rows, std::int64_t width, ElementType type) {
    const std::int64_t size = rows * width * size_of(type);
    bytes += Arena::bytes_for<std::byte>(size);
    return {arena_ == nullptr ? nullptr : arena_->allocate<std::byte>(size), type, {rows, width}};
  }

  ElementType type_;
  Arena* arena_;
};

class DsparkHead final : public DraftHead {
 public:
  explicit DsparkHead(const DraftParts& parts)
      : parts_(parts),
        config_(parts.rank.model()),
        sizes_(config_, parts.sizes),
        arrays_(parts.rank, parts.sizes, &parts.arena),
        first_kept_(static_cast<std::size_t>(parts.sizes.max_sequences), 0) {
    parts_.forward.leave_means({.layers = config_.dspark.target_layer_ids,
                                .of_inputs = config_.family->drafts_from_inputs,
                                .values = arrays_.means});
    const std::int64_t begin = parts.rank.num_layers(), end = parts.rank.num_blocks();
    record_ = {.begin = begin, .end = end, .enter = [this](const DraftRecord::Rows& rows) { take_up(rows); }};
    blocks_ = {.begin = begin, .end = end, .enter = [this](const DraftRows& rows) { embed(rows); }};
  }

  void capture(std::int64_t num_rows) override {
    parts_.forward.capture_record(num_rows, record_);
    if (sizes_.kept > 0) parts_.forward.capture_drafts(num_rows, blocks_);
  }
  std::int64_t follow(const FollowedStep& step, Activations<2> /*logits*/) override {
    if (step.batch.num_rows() > 0 || is_awaited())
      parts_.forward.record_drafts(step.batch, step.chosen, record_);
    return 0;
  }
  void draft(std::span<const DraftRow> rows, std::int64_t depth, std::span<const TokenId> chosen,
             Activations<2> logits, std::span<float> confidence) override {
    if (depth == 0) run_blocks(rows, chosen);
    if (!rows.empty() || is_awaited()) link(rows, depth, chosen, logits, confidence);
  }
  void run_all(const RaggedBatch& batch, Activations<2> logits) override;
  void clear_due_rows(const SequenceSlice& /*sequence*/, std::int64_t /*end*/) override {}
  [[nodiscard]] std::vector<std::span<std::byte>> carried(std::int32_t /*state_slot*/,
                                                          std::int64_t /*length*/) const override {
    return {};
  }

 private:
  [[nodiscard]] const DraftBlockWeights& first() const { return parts_.weights.drafts.front(); }
  [[nodiscard]] const DraftBlockWeights& last() const { return parts_.weights.drafts.back(); }
  /// Other data-parallel groups take part in every call.
  [[nodiscard]] bool is_awaited() const { return parts_.layout.plan().dp > 1; }
  /// What collapses the streams of the latest pass over the blocks.
  [[nodiscard]] FinalMixing mixing() const {
    if (config_.lags_mixing()) return ConstActivations<2>(parts_.forward.left_mixing());
    return last().mixings.at("hc_head");
  }
  [[nodiscard]] float eps() const { return static_cast<float>(config_.rms_norm_eps); }

  /// u of the rows of a step.
  void take_up(const DraftRecord::Rows& rows) const;
  void embed(const DraftRows& rows) const;
  /// Fills hidden and logits of every row's draft.
  void run_blocks(std::span<const DraftRow> rows, std::span<const TokenId> chosen);
  /// One pass over the blocks of some sequences, whose kept rows begin at `first_kept`.
  void run_blocks(std::span<const DraftRow> rows, std::span<const TokenId> chosen, std::int64_t first_kept);
  /// Logits of kept rows [begin, end).
  void write_logits(std::int64_t begin, std::int64_t end);
  void link(std::span<const DraftRow> rows, std::int64_t depth, std::span<const TokenId> chosen,
            Activations<2> logits, std::span<float> confidence);
  void gather(ConstActivations<2> from, std::span<const RowPair> pairs, Activations<2> to) const {
    if (!pairs.empty()) parts_.device.execute<ops::GatherRows>({.from = from, .pairs = pairs, .to = to});
  }

  DraftParts parts_;
  const ModelConfig& config_;
  BlockSizes sizes_;
  Arrays arrays_;
  DraftRecord record_;
  DraftRun blocks_;
  std::vector<std::int64_t> first_kept_;  ///< [state slots] the first of a sequence's kept rows
};

void DsparkHead::take_up(const DraftRecord::Rows& rows) const {
  const LinearOutput projected{&first().matrices.at("main_proj"), rows.free, false, "main_proj"};
  parts_.device.execute<ops::Linear>({.x = arrays_.means.slice(0, rows.kept.size()),
                                      .outputs = {&projected, 1},
                                      .precision = parts_.precision});
  parts_.device.execute<ops::RmsNorm>({.x = rows.free,
                                       .weight = first().vectors.at("main_norm"),
                                       .eps = eps(),
                                       .precision = parts_.precision,
                                       .y = rows.u,
                                       .y_fp8 = rows.u_fp8});
}

void DsparkHead::embed(const DraftRows& rows) const {
  parts_.device.execute<ops::Embed>({.tokens = rows.tokens,
                                     .first_row = rows.kept.begin,
                                     .table = parts_.weights.embedding,
                                     .out = rows.streams});
}

void DsparkHead::run_blocks(std::span<const DraftRow> rows, std::span<const TokenId> chosen) {
  const std::int64_t most = parts_.sizes.max_rows / sizes_.block;  // a step holds a block (block_positions)
  const std::int64_t own_passes = (std::ssize(rows) + most - 1) / most;
  // Groups with fewer sequences take part in the passes of those with more.
  const std::int64_t num_passes =
      is_awaited() ? parts_.device.batches().largest_of_ranks({own_passes}).front() : own_passes;
  for (std::int64_t pass = 0; pass < num_passes; ++pass) {
    const std::int64_t begin = std::min(pass * most, std::ssize(rows));
    const std::int64_t count = std::min(most, std::ssize(rows) - begin);
    run_blocks(rows.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count)), chosen,
               begin * sizes_.kept);
  }
  const std::int64_t num_kept = std::ssize(rows) * sizes_.kept, at_once = parts_.wanted_streams.extent(0);
  for (std::int64_t row = 0; row < num_kept; row += at_once)
    write_logits(row, std::min(row + at_once, num_kept));
}

void DsparkHead::run_blocks(std::span<const DraftRow> rows, std::span<const TokenId> chosen,
                            std::int64_t first_kept) {
  std::vector<TokenId> tokens;
  std::vector<SequenceSlice> slices;
  std::vector<RowPair> kept;
  for (const DraftRow& one : rows) {
    SequenceSlice slice = one.sequence;
    slice.first_row = std::ssize(tokens);
    slice.num_tokens = sizes_.block;
    slice.sees_ahead = true;
    slices.push_back(slice);
    tokens.push_back(one.token);
    tokens.resize(tokens.size() + static_cast<std::size_t>(sizes_.block - 1),
                  static_cast<TokenId>(config_.dspark.noise_token_id));
    first_kept_[static_cast<std::size_t>(slice.state_slot)] = first_kept;
    for (std::int64_t i = 0; i < sizes_.kept; ++i) kept.push_back(pair(slice.first_row + i, first_kept++));
  }
  const Activations<3> streams =
      parts_.forward.run_drafts({.tokens = tokens, .slices = slices}, chosen, blocks_);
  if (rows.empty()) return;
  parts_.forward.collapse(streams, mixing(), arrays_.collapsed);
  gather(arrays_.collapsed, kept, arrays_.hidden);
}

void DsparkHead::write_logits(std::int64_t begin, std::int64_t end) {
  parts_.forward.logits(arrays_.hidden.slice(begin, end), last().vectors.at("norm"),
                        arrays_.logits.slice(begin, end));
}

void DsparkHead::link(std::span<const DraftRow> rows, std::int64_t depth, std::span<const TokenId> chosen,
                      Activations<2> logits, std::span<float> confidence) {
  std::vector<TokenId> tokens;
  std::vector<SequenceSlice> slices;
  std::vector<RowPair> kept;
  for (const DraftRow& one : rows) {
    SequenceSlice slice = one.sequence;
    kept.push_back(pair(first_kept_[static_cast<std::size_t>(slice.state_slot)] + depth, std::ssize(tokens)));
    slice.first_row = std::ssize(tokens);
    slice.num_tokens = 1;
    slices.push_back(slice);
    tokens.push_back(one.token);
  }
  const StepRows step = parts_.device.batches().begin({.tokens = tokens, .slices = slices}, chosen);
  if (rows.empty()) return;
  const Activations<2> hidden = arrays_.link_hidden.slice(0, std::ssize(rows));
  gather(arrays_.logits, kept, logits);
  gather(arrays_.hidden, kept, hidden);
  const WeightMatrix& w1 = last().matrices.at("markov_head.markov_w1");
  const std::span<const float> proj = last().vectors.at("confidence_head.proj");
  parts_.device.execute<ops::Markov>(
      {.tokens = step.tokens.first(rows.size()),
       .w1 = {reinterpret_cast<const Bf16Bits*>(w1.data), {w1.rows, w1.cols}},
       .w2 = &last().matrices.at("markov_head.markov_w2"),
       .logits = logits,
       .hidden = hidden,
       .confidence_weight = confidence.empty() ? std::span<const float>() : proj,
       .confidence = confidence});
}

void DsparkHead::run_all(const RaggedBatch& batch, Activations<2> logits) {
  parts_.forward.record_drafts(batch, {}, record_);
  const Activations<3> streams = parts_.forward.run_drafts(batch, {}, blocks_);
  parts_.forward.logits(streams.slice(0, parts_.layout.kept(logits.extent(0)).size()), mixing(),
                        last().vectors.at("norm"), logits);
}

}  // namespace

const DraftHeadType kDsparkHead{.name = "dspark",
                                .title = "DSpark head",
                                .has_row_logits = false,
                                .is_in =
                                    [](const ModelConfig& config) {
                                      return config.draft_kind == DraftKind::kDspark &&
                                             config.num_draft_blocks() > 0;
                                    },
                                .traits =
                                    [](const RankConfig& rank, const DraftSizes& sizes) {
                                      const std::int64_t block = rank.model().dspark.block_size;
                                      return DraftTraits{.buffer_bytes = Arrays(rank, sizes, nullptr).bytes,
                                                         .most_tokens = block,
                                                         .block_positions = block,
                                                         .tells_confidence = true};
                                    },
                                .make = [](const DraftParts& parts) -> std::unique_ptr<DraftHead> {
                                  return std::make_unique<DsparkHead>(parts);
                                }};

}  // namespace baleen
