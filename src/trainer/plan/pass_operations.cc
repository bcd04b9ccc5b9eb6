#include "trainer/plan/pass_operations.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "ops/compressor/compressor_backward.h"
#include "ops/dense_attention/dense_attention.h"
#include "ops/embed/embed.h"
#include "ops/experts/experts.h"
#include "ops/grouped_linear/grouped_linear.h"
#include "ops/hc_head/hc_head.h"
#include "ops/hc_post/hc_post.h"
#include "ops/hc_pre/hc_pre.h"
#include "ops/indexer_loss/index_scores.h"
#include "ops/indexer_loss/indexer_loss.h"
#include "ops/linear/linear.h"
#include "ops/lm_head/lm_head.h"
#include "ops/mtp_combine/mtp_combine.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/rope/rope.h"
#include "ops/route/route.h"
#include "ops/route/sequence_balance.h"
#include "tensor/unbacked_memory.h"

namespace baleen {
namespace {

/// Writes down a pass part by part, as trainer/graph computes it: each function here is the list of what the
/// function of the same name there calls.
class PassRecorder {
 public:
  PassRecorder(const ModelConfig& config, const PassOptions& options)
      : c_(config),
        options_(options),
        operands_(options.bf16_products ? Operands::kBf16 : Operands::kAsStored) {}

  void record(std::span<const std::int64_t> lengths) {
    begin(ModelPart::kMixing, -1, lengths);
    embed();
    for (std::int64_t block = 0; block < c_.num_hidden_layers; ++block) run_block(block, lengths);
    begin(ModelPart::kHead, -1, lengths);
    token_loss();
    if (c_.num_nextn_predict_layers == 0 || options_.mtp_weight == 0) return;
    // The last token of a document has no next one, which a row of the MTP block needs.
    std::vector<std::int64_t> shorter;
    for (const std::int64_t length : lengths)
      if (length > 1) shorter.push_back(length - 1);
    begin(ModelPart::kMtpEntry, c_.num_hidden_layers, shorter);
    mtp_entry();
    run_block(c_.num_hidden_layers, shorter);
    begin(ModelPart::kHead, c_.num_hidden_layers, shorter);
    token_loss();
  }

  [[nodiscard]] std::vector<PassOperation> take() { return std::move(operations_); }

 private:
  void begin(ModelPart part, std::int64_t block, std::span<const std::int64_t> lengths) {
    part_ = part;
    block_ = block;
    lengths_ = lengths;
    n_ = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  }

  /// `trains`: the pass has a gradient of it.
  void add(std::string_view name, std::string detail, std::int64_t rows, const OpCost& forward,
           const OpCost& backward, bool trains) {
    operations_.push_back(
        {name, std::move(detail), part_, block_, rows, forward, trains ? backward : OpCost()});
  }
  template <class Op>
  void add(const typename Op::Args& args, bool trains) {
    const CallShape shape = Op::shape(args);
    add(Op::kName, shape.detail, shape.num_rows, Op::cost(args), Op::backward_cost(args), trains);
  }
  template <class Op>
  void add(const typename Op::Args& args) {
    add<Op>(args, trunk_trains());
  }
  /// The products that were added last take the pass's operands.
  void take_operands() {
    if (operands_ == Operands::kAsStored) return;
    for (OpCost* cost : {&operations_.back().forward, &operations_.back().backward}) {
      double& exact = cost->flops[static_cast<std::size_t>(MathFormat::kF32)];
      cost->add_flops(math_format(operands_), std::exchange(exact, 0));
    }
  }
  [[nodiscard]] bool trunk_trains() const { return !options_.indexers_alone; }

  template <int Rank>
  Activations<Rank> array(const std::array<std::int64_t, Rank>& extents) {
    return {memory_.allocate(1), ElementType::kF32, extents};
  }
  [[nodiscard]] static WeightMatrix matrix(std::int64_t out, std::int64_t in) {
    return {.format = WeightFormat::kF32, .rows = out, .cols = in};
  }
  std::span<const float> vector(std::int64_t size) {
    return {reinterpret_cast<const float*>(memory_.allocate(1)), static_cast<std::size_t>(size)};
  }

  /// In the pass's arithmetic.
  void linear(std::string_view name, std::int64_t rows, std::int64_t in, std::int64_t out) {
    linear(name, rows, in, out, trunk_trains(), true);
    take_operands();
  }
  /// In float32.
  void linear(std::string_view name, std::int64_t rows, std::int64_t in, std::int64_t out, bool trains,
              bool trains_input) {
    const WeightMatrix weight = matrix(out, in);
    const LinearOutput output{&weight, array<2>({rows, out}), true, name, trains_input};
    add<ops::Linear>({.x = array<2>({rows, in}), .outputs = {&output, 1}, .precision = Precision::kExact},
                     trains);
  }
  void norm(std::int64_t rows, std::int64_t width, bool has_weight = true) {
    add<ops::RmsNorm>({.x = array<2>({rows, width}),
                       .weight = has_weight ? vector(width) : std::span<const float>(),
                       .precision = Precision::kExact,
                       .y = array<2>({rows, width})});
  }
  /// Of the last values of each head.
  void rotate(std::int64_t rows, std::int64_t heads, std::int64_t width, bool trains) {
    const Activations<2> angles = array<2>({rows, c_.qk_rope_head_dim / 2});
    add<ops::Rope>({.x = array<3>({rows, heads, width}),
                    .cosine = angles,
                    .sine = angles,
                    .precision = Precision::kExact},
                   trains);
  }

  void embed() {
    const std::vector<TokenId> tokens(static_cast<std::size_t>(n_));
    add<ops::Embed>({.tokens = tokens,
                     .table = {nullptr, {c_.vocab_size, c_.hidden_size}},
                     .out = array<3>({n_, c_.hc_mult, c_.hidden_size})});
  }

  [[nodiscard]] HcWeights mixing(std::int64_t mixes, std::int64_t scales) {
    return {.fn = {vector(1).data(), {mixes, c_.hc_dim()}}, .base = vector(mixes), .scale = vector(scales)};
  }
  [[nodiscard]] Activations<3> streams() { return array<3>({n_, c_.hc_mult, c_.hidden_size}); }

  void site(bool of_head) {
    const Activations<2> u = array<2>({n_, c_.hidden_size});
    if (!options_.plain_residual && of_head) {
      add<ops::HcHead>(
          {.streams = streams(), .weights = mixing(c_.hc_mult, 1), .precision = Precision::kExact, .y = u});
    } else if (!options_.plain_residual) {
      add<ops::HcPre>({.streams = streams(),
                       .weights = mixing((2 + c_.hc_mult) * c_.hc_mult, 3),
                       .sinkhorn_iterations = static_cast<int>(c_.hc_sinkhorn_iters),
                       .precision = Precision::kExact,
                       .u = u,
                       .post = array<2>({n_, c_.hc_mult}),
                       .comb = array<3>({n_, c_.hc_mult, c_.hc_mult})});
    }
    norm(n_, c_.hidden_size);
  }

  void leave() {
    if (options_.plain_residual) {
      const double values = static_cast<double>(n_ * c_.hidden_size);
      const OpCost sum{.scalar_ops = values, .read_bytes = 8 * values, .write_bytes = 4 * values};
      return add("residual", "", n_, sum, sum, trunk_trains());
    }
    add<ops::HcPost>({.f = array<2>({n_, c_.hidden_size}),
                      .post = array<2>({n_, c_.hc_mult}),
                      .comb = array<3>({n_, c_.hc_mult, c_.hc_mult}),
                      .precision = Precision::kExact,
                      .streams = streams()});
  }

  void run_block(std::int64_t block, std::span<const std::int64_t> lengths) {
    begin(ModelPart::kMixing, block, lengths);
    site(false);
    part_ = ModelPart::kAttention;
    attention();
    part_ = ModelPart::kMixing;
    leave();
    site(false);
    part_ = ModelPart::kExperts;
    experts();
    part_ = ModelPart::kMixing;
    leave();
  }

  void attention() {
    const LayerAttention shape = c_.attention(block_);
    const std::int64_t d = c_.hidden_size, rank = c_.q_lora_rank;
    linear("wq_a", n_, d, rank);
    norm(n_, rank);
    linear("wq_b", n_, rank, c_.q_dim());
    norm(n_ * shape.num_heads, shape.head_dim, false);
    rotate(n_, shape.num_heads, shape.head_dim, trunk_trains());
    linear("wkv", n_, d, shape.head_dim);
    norm(n_, shape.head_dim);
    rotate(n_, 1, shape.head_dim, trunk_trains());
    if (shape.compresses()) compressor(shape, shape.head_dim, "compressor", trunk_trains(), true);
    indexer(shape);
    for (const std::int64_t length : lengths_) {
      const DenseAttentionValues<float> values{.tokens = length,
                                               .heads = shape.num_heads,
                                               .width = shape.head_dim,
                                               .window = shape.window_tokens,
                                               .entries = shape.num_entries(length),
                                               .rounds_weights = options_.rounds_as_released,
                                               .operands = operands_};
      add("dense_attention", "", length, dense_attention_cost(values, shape.ratio),
          dense_attention_backward_cost(values, shape.ratio), trunk_trains());
    }
    if (has_indexer_loss(shape)) indexer_loss(shape);
    rotate(n_, shape.num_heads, shape.head_dim, trunk_trains());
    const WeightMatrix wo_a = matrix(c_.o_dim(), c_.group_dim());
    add<ops::GroupedLinear>({.x = array<3>({n_, c_.o_groups, c_.group_dim()}),
                             .weight = &wo_a,
                             .y = array<2>({n_, c_.o_dim()}),
                             .precision = Precision::kExact,
                             .name = "wo_a"});
    take_operands();
    linear("wo_b", n_, c_.o_dim(), d);
  }

  void compressor(const LayerAttention& shape, std::int64_t width, std::string_view name, bool trains,
                  bool trains_input) {
    const std::int64_t columns = shape.compressor_columns(width);
    linear(name, n_, c_.hidden_size, columns, trains, trains_input);
    linear(name, n_, c_.hidden_size, columns, trains, trains_input);
    OpCost forward, backward;
    std::int64_t entries = 0;
    for (const std::int64_t length : lengths_) {
      const PoolingValues<float> values{
          .tokens = length, .ratio = shape.ratio, .width = width, .overlaps = shape.overlaps};
      forward += pooling_cost(values);
      backward += pooling_backward_cost(values);
      entries += values.entries();
    }
    add("pooling", std::string(name), n_, forward, backward, trains);
    norm(entries, width);
    rotate(entries, 1, width, trains);
  }

  [[nodiscard]] bool has_indexer_loss(const LayerAttention& shape) const {
    return shape.indexed && options_.indexer_weight != 0;
  }

  void indexer(const LayerAttention& shape) {
    const bool leaves_out = std::ranges::any_of(
        lengths_, [&](std::int64_t length) { return shape.num_entries(length) > shape.top_k; });
    const bool trains = has_indexer_loss(shape);
    if (!trains && (!shape.indexed || options_.dense_attention || !leaves_out)) return;
    linear("indexer.wq_b", n_, c_.q_lora_rank, shape.index_heads * shape.index_dim, trains, false);
    take_operands();
    rotate(n_, shape.index_heads, shape.index_dim, trains);
    linear("indexer.weights_proj", n_, c_.hidden_size, shape.index_heads, trains, false);
    compressor(shape, shape.index_dim, "indexer.compressor", trains, false);
    for (const std::int64_t length : lengths_) {
      const IndexScoreValues<float> values{.tokens = length,
                                           .heads = shape.index_heads,
                                           .width = shape.index_dim,
                                           .entries = shape.num_entries(length),
                                           .ratio = shape.ratio,
                                           .operands = operands_};
      if (values.entries > 0)
        add("index_scores", "", length, index_scores_cost(values), index_scores_backward_cost(values),
            trains);
    }
  }

  void indexer_loss(const LayerAttention& shape) {
    for (const std::int64_t length : lengths_) {
      const IndexerLossValues<float> values{.tokens = length, .entries = shape.num_entries(length)};
      add("indexer_loss", "", length, indexer_loss_cost(values), indexer_loss_backward_cost(values), true);
    }
  }

  void experts() {
    const std::int64_t d = c_.hidden_size, k = c_.num_experts_per_tok, width = c_.moe_intermediate_size;
    linear("gate", n_, d, c_.n_routed_experts, trunk_trains(), true);
    const View<std::int32_t, 2> ids(nullptr, {n_, k});
    add<ops::Route>(
        {.logits = array<2>({n_, c_.n_routed_experts}), .ids = ids, .weights = array<2>({n_, k})});
    if (options_.balance_weight != 0 && !c_.is_hash_routed(block_)) {
      OpCost forward, backward;
      for (const std::int64_t length : lengths_) {
        const SequenceBalanceValues<float> values{.tokens = length, .experts = c_.n_routed_experts, .k = k};
        forward += sequence_balance_cost(values);
        backward += sequence_balance_backward_cost(values);
      }
      add("sequence_balance", "", n_, forward, backward, trunk_trains());
    }
    const ExpertWeights expert{.w1 = matrix(width, d), .w2 = matrix(d, width), .w3 = matrix(width, d)};
    const std::vector<ExpertWeights> routed(static_cast<std::size_t>(c_.n_routed_experts), expert);
    const ExpertsArgs args{.x = array<2>({n_, d}),
                           .ids = {nullptr, {n_, k}},
                           .weights = array<2>({n_, k}),
                           .routed = routed,
                           .shared = &expert,
                           .precision = Precision::kExact,
                           .out = array<2>({n_, d})};
    add(ops::Experts::kName, ops::Experts::shape(args).detail, n_, expected_experts_cost(args),
        expected_experts_backward_cost(args), trunk_trains());
    take_operands();
  }

  /// Every row of the streams goes through the head's mixing; products with the head are of targets.
  void token_loss() {
    site(true);
    std::int64_t targets = 0;
    for (const std::int64_t length : lengths_) targets += length - 1;
    const WeightMatrix head = matrix(c_.vocab_size, c_.hidden_size);
    add<ops::LmHead>({.x = array<2>({targets, c_.hidden_size}),
                      .weight = &head,
                      .logits = array<2>({targets, c_.vocab_size})});
    take_operands();
  }

  void mtp_entry() {
    const std::int64_t d = c_.hidden_size;
    norm(n_, d);
    norm(n_ * c_.hc_mult, d);
    linear("e_proj", n_, d, d);
    linear("h_proj", n_ * c_.hc_mult, d, d);
    add<ops::MtpCombine>(
        {.embedded = array<2>({n_, d}), .precision = Precision::kExact, .streams = streams()});
  }

  const ModelConfig& c_;
  const PassOptions& options_;
  Operands operands_;
  UnbackedMemory memory_;
  std::vector<PassOperation> operations_;
  ModelPart part_ = ModelPart::kHead;
  std::int64_t block_ = -1, n_ = 0;
  std::span<const std::int64_t> lengths_;
};

}  // namespace

std::vector<PassOperation> pass_operations(const ModelConfig& config,
                                           std::span<const std::int64_t> document_lengths,
                                           const PassOptions& options) {
  PassRecorder recorder(config, options);
  recorder.record(document_lengths);
  return recorder.take();
}

}  // namespace baleen
