#include "simulator/graph/op_graph.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "drafts/heads/draft_heads.h"
#include "forward/forward.h"
#include "model/cache_geometry.h"
#include "model/decoder_half.h"
#include "ops/gather_rows/gather_rows.h"
#include "ops/sample/sample.h"
#include "simulator/graph/expert_routing.h"
#include "simulator/graph/recording_device.h"

namespace baleen {
namespace {

/// A batch whose sequences have lengths and nothing else.
struct ShapeBatch {
  std::vector<TokenId> tokens;
  std::vector<SequenceSlice> slices;

  /// Of parts without tokens nothing.
  explicit ShapeBatch(const RankBatch& parts) {
    for (const QueryPart& part : parts) {
      if (part.num_tokens == 0) continue;
      slices.push_back({.first_row = std::ssize(tokens), .num_tokens = part.num_tokens, .start = part.start});
      tokens.resize(tokens.size() + static_cast<std::size_t>(part.num_tokens));
    }
  }
  [[nodiscard]] RaggedBatch view() const { return {.tokens = tokens, .slices = slices}; }
};

/// Of the rows of a batch those that go on into the decoder half of the model.
struct DecoderBatch {
  ShapeBatch rows;
  std::vector<RowPair> pairs;

  explicit DecoderBatch(const RankBatch& parts) : rows(in_decoder(parts)) {
    std::int32_t row = 0;
    auto slice = rows.slices.begin();
    for (const QueryPart& part : parts) {
      for (std::int64_t i = 0; i < part.num_tokens; ++i, ++row)
        if (i >= part.num_encoded()) pairs.push_back({row, static_cast<std::int32_t>(pairs.size())});
      if (part.num_encoded() < part.num_tokens) (slice++)->window_begin = part.decoder_begin;
    }
  }
  [[nodiscard]] static RankBatch in_decoder(RankBatch parts) {
    for (QueryPart& part : parts) part = part.in_decoder();
    return parts;
  }
};

/// The rank of a stage whose step is recorded: the first. Where a prompt's rows are shared out, the last of
/// those with the most rows, because its rows see the longest context.
RankLayout recorded_layout(const RankModel& model, const RankBatch& batch, const Workload& workload) {
  const ParallelPlan& plan = model.plan();
  const RankLayout& first = model.layout();
  if (plan.cp == 1 || workload.decode || num_rows(batch) == 0) return first;
  const std::int64_t most = even_rows(num_rows(batch), plan.cp).front().size();
  return {model.config().model(), plan, first.stage(), first.rank() / plan.stage_ranks(),
          num_rows(batch) / most - 1};
}

/// Rows that the draft head runs at once for every sequence.
std::int64_t draft_rows(const RankModel& model, const RankBatch& batch) {
  const DraftHeadType* const head = draft_head_of(model.config().model());
  return head == nullptr ? 0 : head->traits(model.config(), {}).block_positions * std::ssize(batch);
}

/// The engine's step (engine/model_runner.cc, draft_session.cc) without a cache.
class StepRecorder {
 public:
  StepRecorder(const RankModel& model, const RankBatch& batch, const Workload& workload,
               const GraphOptions& options, OpGraph& graph)
      : model_(model),
        batch_(batch),
        workload_(workload),
        layout_(recorded_layout(model, batch, workload)),
        graph_(graph),
        device_(options, graph),
        cache_(cache_geometry(model.config(), Precision::kReleased, workload.num_drafts), {1, 1, 1},
               device_.memory()),
        max_rows_(std::max({num_rows(batch), num_logit_rows(batch), draft_rows(model, batch)})),
        arena_(forward_buffer_bytes(model.config(), max_rows_, options.activations), device_.memory()),
        forward_(model.config(), model.weights(), device_, cache_, Precision::kReleased, max_rows_, arena_,
                 layout_),
        type_(options.activations),
        routing_(routing_of(0)),
        draft_routing_(routing_of(model.config().num_layers())) {
    forward_.expect_load([this, &options](std::int64_t block, std::int64_t rows) {
      return expected_load(block, rows, options);
    });
  }

  void record() {
    graph_.num_rows = num_rows(batch_);
    graph_.num_logit_rows = num_logit_rows(batch_);
    const ShapeBatch step(batch_);
    const std::int64_t window = model_.config().model().sliding_window;
    std::optional<DecoderBatch> decoder;
    if (std::ranges::any_of(batch_, [&](const QueryPart& part) { return part.is_bounded(window); }))
      decoder.emplace(batch_);
    // Before the layers run: a head may want copies of their streams.
    const std::unique_ptr<DraftHead> head = draft_head();
    device_.enter(GraphPart::kLayers);
    run_layers(step, decoder);
    if (!model_.stage().last) return;
    if (graph_.num_logit_rows > 0) {
      device_.enter(GraphPart::kHead);
      gather(kept(graph_.num_logit_rows));
      choose(graph_.num_logit_rows);
    }
    if (head == nullptr) return;
    if (workload_.trains) {
      device_.enter(GraphPart::kDraft);
      head->run_all(step.view(), logits(graph_.num_logit_rows));
    } else if (const ShapeBatch& last = decoder ? decoder->rows : step; !last.tokens.empty()) {
      record_drafts(*head, last);
    }
  }

 private:
  [[nodiscard]] Activations<2> stream_rows(std::int64_t count) {
    return {unused(), type_, {count, model_.config().model().hc_dim()}};
  }
  void run_layers(const ShapeBatch& step, const std::optional<DecoderBatch>& decoder) {
    if (!decoder) {
      static_cast<void>(forward_.run(step.view()));
      return;
    }
    static_cast<void>(forward_.run(step.view(), {},
                                   {.begin = decoder_begin(model_.config().model()).value(),
                                    .batch = decoder->rows.view(),
                                    .rows = decoder->pairs,
                                    .any = !decoder->pairs.empty()}));
  }
  /// What collapses streams; empty where that has weights of its own.
  [[nodiscard]] Activations<2> mixing_rows(std::int64_t count) {
    const ModelConfig& c = model_.config().model();
    if (!c.lags_mixing()) return {};
    return {unused(), ElementType::kF32, {count, c.hc_mult}};
  }
  [[nodiscard]] Activations<2> logits(std::int64_t count) {
    return {unused(), ElementType::kF32, {count, model_.config().model().vocab_size}};
  }
  /// Null where the step has no drafts, or the stage no head.
  [[nodiscard]] std::unique_ptr<DraftHead> draft_head() {
    const DraftHeadType* const head = model_.stage().last ? draft_head_of(model_.config().model()) : nullptr;
    const bool drafts = workload_.decode && workload_.num_drafts > 0;
    if (head == nullptr || !(workload_.trains || drafts)) return nullptr;
    const DraftSizes sizes{.max_rows = max_rows_,
                           .max_sequences = std::ssize(batch_),
                           .max_draft_tokens = workload_.num_drafts,
                           .type = type_};
    draft_arena_.emplace(head->traits(model_.config(), sizes).buffer_bytes, device_.memory());
    return head->make({.rank = model_.config(),
                       .weights = model_.weights(),
                       .device = device_,
                       .forward = forward_,
                       .cache = cache_,
                       .layout = layout_,
                       .sizes = sizes,
                       .arena = *draft_arena_,
                       .all_streams = {},
                       .wanted_streams = stream_rows(max_rows_)});
  }
  /// The head follows the rows that come out of the last layer, then drafts for each of their sequences.
  void record_drafts(DraftHead& head, const ShapeBatch& step) {
    const ModelConfig& c = model_.config().model();
    const std::vector<FollowedPart> parts(step.slices.size(), {.continues = true, .wants_logits = false});
    const std::int64_t count = std::ssize(step.tokens);
    const ConstActivations<3> streams = stream_rows(count).reshaped<3>({count, c.hc_mult, c.hidden_size});
    device_.enter(GraphPart::kFollow);
    static_cast<void>(
        head.follow({.batch = step.view(), .parts = parts, .streams = streams, .chosen = {}}, logits(count)));
    device_.enter(GraphPart::kDraft);
    std::vector<DraftRow> rows;
    for (const SequenceSlice& slice : step.slices)
      rows.push_back({.sequence = {.start = slice.start + slice.num_tokens}, .token = 0});
    for (std::int64_t depth = 0; depth < workload_.num_drafts; ++depth) {
      head.draft(rows, depth, {}, logits(std::ssize(rows)), {});
      sample(std::ssize(rows));
    }
  }
  void gather(std::int64_t count) {
    const std::vector<RowPair> pairs(static_cast<std::size_t>(count));
    device_.execute<ops::GatherRows>({.from = stream_rows(count), .pairs = pairs, .to = stream_rows(count)});
    if (const Activations<2> left = mixing_rows(count); !left.empty())
      device_.execute<ops::GatherRows>({.from = left, .pairs = pairs, .to = mixing_rows(count)});
  }
  /// Logits of `count` rows, and the tokens chosen from them unless they have a loss.
  void choose(std::int64_t count) {
    const ModelConfig& c = model_.config().model();
    forward_.logits(stream_rows(kept(count)).reshaped<3>({kept(count), c.hc_mult, c.hidden_size}),
                    mixing_rows(kept(count)), logits(count));
    if (!workload_.trains) sample(count);
  }
  void sample(std::int64_t count) {
    const std::vector<SampleRow> draws(static_cast<std::size_t>(count));
    device_.execute<ops::Sample>({.logits = logits(count),
                                  .rows = draws,
                                  .ids = {reinterpret_cast<TokenId*>(unused()), draws.size()}});
  }
  /// Of `count` rows, those that this rank has between attention and attention.
  [[nodiscard]] std::int64_t kept(std::int64_t count) const { return layout_.kept(count).size(); }
  /// What this rank's experts get in the heaviest case that the workload names.
  [[nodiscard]] ExpertLoad expected_load(std::int64_t block, std::int64_t rows,
                                         const GraphOptions& options) const {
    const RankConfig& rank = model_.config();
    const ParallelPlan& plan = model_.plan();
    const double imbalance = rank.is_hash_routed(block) ? workload_.hash_imbalance : workload_.imbalance;
    const std::int64_t groups = workload_.active_groups > 0 ? workload_.active_groups : plan.dp;
    const auto all_rows = static_cast<double>(rows * groups);
    const auto chosen = static_cast<double>(rank.num_selected_experts(block));
    const auto slots = static_cast<double>(rank.num_experts_of(block));
    const ExpertRouting& routing = rank.is_draft_block(block) ? draft_routing_ : routing_;
    return {.assignments = all_rows * chosen / static_cast<double>(plan.ep) * (plan.ep > 1 ? imbalance : 1),
            .distinct = options.active_experts ? options.active_experts(block)
                                               : slots * routing.distinct_share(all_rows),
            .tokens = all_rows};
  }
  [[nodiscard]] ExpertRouting routing_of(std::int64_t block) const {
    const RankConfig& rank = model_.config();
    return {rank.num_routed_experts(block), rank.num_selected_experts(block), workload_.zipf};
  }
  [[nodiscard]] std::byte* unused() { return device_.memory().allocate(1); }

  const RankModel& model_;
  const RankBatch& batch_;
  const Workload& workload_;
  RankLayout layout_;
  OpGraph& graph_;
  RecordingDevice device_;
  KvCache cache_;
  std::int64_t max_rows_;
  Arena arena_;
  Forward forward_;
  std::optional<Arena> draft_arena_;
  ElementType type_;
  ExpertRouting routing_;        ///< for tokens in the layers
  ExpertRouting draft_routing_;  ///< for tokens in the draft head's blocks
};

}  // namespace

OpCost OpGraph::total_cost() const {
  OpCost total;
  for (const GraphOp& op : ops) total += op.cost;
  return total;
}

OpGraph record_step(const RankModel& model, const RankBatch& batch, const Workload& workload,
                    const GraphOptions& options) {
  OpGraph graph;
  StepRecorder(model, batch, workload, options, graph).record();
  return graph;
}

}  // namespace baleen
