#include "simulator/graph/op_graph.h"

#include <algorithm>

#include "model/forward.h"
#include "ops/gather_rows/gather_rows.h"
#include "ops/sample/sample.h"
#include "simulator/graph/recording_device.h"

namespace baleen {
namespace {

/// A batch whose sequences have lengths and nothing else.
struct ShapeBatch {
  std::vector<TokenId> tokens;
  std::vector<SequenceSlice> slices;

  explicit ShapeBatch(const RankBatch& parts) {
    for (const QueryPart& part : parts) {
      slices.push_back({.first_row = std::ssize(tokens), .num_tokens = part.num_tokens, .start = part.start});
      tokens.resize(tokens.size() + static_cast<std::size_t>(part.num_tokens));
    }
  }
  [[nodiscard]] RaggedBatch view() const { return {.tokens = tokens, .slices = slices}; }
};

/// The engine's step (engine/engine_step.cc, engine_mtp.cc) without a cache.
class StepRecorder {
 public:
  StepRecorder(const RankModel& model, const RankBatch& batch, const Workload& workload,
               const GraphOptions& options, OpGraph& graph)
      : model_(model),
        batch_(batch),
        workload_(workload),
        graph_(graph),
        device_(model, workload, options, graph),
        cache_(cache_geometry(model.config(), Precision::kReleased, workload.num_mtp_tokens), {1, 1, 1},
               device_.memory()),
        max_rows_(std::max(num_rows(batch), num_logit_rows(batch))),
        arena_(forward_buffer_bytes(model.rank_config(), max_rows_, options.activations), device_.memory()),
        forward_(model.rank_config(), model.weights(), device_, cache_, Precision::kReleased, max_rows_,
                 arena_),
        type_(options.activations) {}

  void record() {
    graph_.num_rows = num_rows(batch_);
    graph_.num_logit_rows = num_logit_rows(batch_);
    const ShapeBatch step(batch_);
    device_.enter(GraphPart::kLayers);
    const Activations<3> streams = forward_.run(step.view());
    if (!model_.stage().last) return;
    if (graph_.num_logit_rows > 0) {
      device_.enter(GraphPart::kHead);
      gather(graph_.num_logit_rows);
      choose(graph_.num_logit_rows, false);
    }
    if (workload_.trains && model_.config().num_nextn_predict_layers > 0) {
      device_.enter(GraphPart::kDraft);
      static_cast<void>(forward_.run_mtp(step.view(), streams, 0));
      choose(graph_.num_logit_rows, true);
    }
    if (!workload_.decode || workload_.num_mtp_tokens == 0) return;
    // The MTP block follows over the rows of the step, then chains drafts, one row a sequence.
    device_.enter(GraphPart::kDraft);
    static_cast<void>(forward_.run_mtp(step.view(), streams, 0));
    RankBatch last = batch_;
    for (std::int64_t depth = 0; depth < workload_.num_mtp_tokens; ++depth) {
      for (QueryPart& part : last) {
        part.start += depth == 0 ? part.num_tokens - 1 : 1;
        part.num_tokens = part.num_logits = 1;
      }
      const ShapeBatch draft(last);
      gather(std::ssize(last));
      static_cast<void>(forward_.run_mtp(draft.view(), streams, 0));
      gather(std::ssize(last));
      choose(std::ssize(last), true);
    }
  }

 private:
  [[nodiscard]] Activations<2> stream_rows(std::int64_t count) {
    return {unused(), type_, {count, model_.config().hc_dim()}};
  }
  void gather(std::int64_t count) {
    const std::vector<RowPair> pairs(static_cast<std::size_t>(count));
    device_.execute<ops::GatherRows>({.from = stream_rows(count), .pairs = pairs, .to = stream_rows(count)});
  }
  /// Logits of `count` rows, and the tokens chosen from them.
  void choose(std::int64_t count, bool mtp) {
    const ModelConfig& c = model_.config();
    const ConstActivations<3> streams = stream_rows(count).reshaped<3>({count, c.hc_mult, c.hidden_size});
    const Activations<2> logits(unused(), ElementType::kF32, {count, model_.weights().head.rows});
    if (mtp) {
      forward_.mtp_logits(streams, 0, logits);
    } else {
      forward_.logits(streams, logits);
    }
    const std::vector<SampleRow> draws(static_cast<std::size_t>(count));
    device_.execute<ops::Sample>({.logits = {unused(), ElementType::kF32, {count, c.vocab_size}},
                                  .rows = draws,
                                  .ids = {reinterpret_cast<TokenId*>(unused()), draws.size()}});
  }
  [[nodiscard]] std::byte* unused() { return device_.memory().allocate(1); }

  const RankModel& model_;
  const RankBatch& batch_;
  const Workload& workload_;
  OpGraph& graph_;
  RecordingDevice device_;
  KvCache cache_;
  std::int64_t max_rows_;
  Arena arena_;
  Forward forward_;
  ElementType type_;
};

}  // namespace

std::string_view collective_name(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return "all_reduce";
    case CollectiveKind::kAllGather:
      return "all_gather";
    case CollectiveKind::kReduceScatter:
      return "reduce_scatter";
    case CollectiveKind::kAllToAll:
      return "all_to_all";
    case CollectiveKind::kSend:
      return "send";
  }
  return "?";
}

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
