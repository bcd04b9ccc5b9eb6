// Context parallelism as it is recorded: its messages, derived by hand, and the rank that is recorded.
//
// DeepSeek-V4 Flash: a row of normalised input or experts is 8,192 bytes in bf16, 4,128 in e4m3 with scales;
// kv has c = 512 values; a compressor's kv and gate are float32, 2 c each where entries overlap (CSA), c
// where not (HCA); the indexer's 2 c_I = 256 each.

#include <gtest/gtest.h>

#include "model/presets.h"
#include "simulator/graph/op_graph.h"

namespace baleen {
namespace {

struct ContextCase {
  ParallelPlan plan;
  std::int64_t num_rows;      ///< N of a group
  std::int64_t kept_rows;     ///< of the first rank
  double dispatched, output;  ///< bytes of the two all-to-alls
  double head, logits;        ///< of the two all-gathers
};

void expect_message(const RankMessage& found, MessageKind kind, std::int64_t ranks, double bytes) {
  EXPECT_EQ(message_name(found.kind), message_name(kind));
  EXPECT_EQ(found.group_size, ranks);
  EXPECT_DOUBLE_EQ(static_cast<double>(found.bytes), bytes);
}

TEST(ContextParallel, MessagesAsDerivedByHand) {
  const ModelConfig config = preset_config("flash");
  const std::vector<ContextCase> cases{
      // 2 of 6 rows: 12 copies of which 3 of 4 leave. Logits: 6 x 32,320 x 4.
      {{.num_devices = 4, .cp = 4}, 6, 2, 9 * 4128, 9 * 8192, 16384, 775680},
      // 3 of 5 rows: 18 copies, 3 of 4 leave. Logits: 5 x 64,640 x 4.
      {{.num_devices = 4, .cp = 2, .dp = 2}, 5, 3, 13.5 * 4128, 13.5 * 8192, 24576, 1292800}};
  for (const ContextCase& tested : cases) {
    const ParallelPlan plan = resolved(tested.plan, config);
    SCOPED_TRACE(to_text(plan));
    ASSERT_TRUE(violations(plan, config).empty());
    const RankModel model(config, {}, plan);
    const RankBatch batch(static_cast<std::size_t>(tested.num_rows),
                          {.start = 1000, .num_tokens = 1, .num_logits = 1});
    const OpGraph graph = record_step(model, batch, {}, {});
    const auto own = static_cast<double>(tested.kept_rows);
    const std::int64_t ranks = plan.stage_ranks();
    for (std::int64_t block = 0; block < config.num_hidden_layers; ++block) {
      SCOPED_TRACE(block);
      std::vector<double> gathered{own * 512 * 2};
      const LayerKind kind = config.attention(block).kind();
      if (kind == LayerKind::kHca) gathered.insert(gathered.end(), 2, own * 512 * 4);
      if (kind == LayerKind::kCsa) {
        gathered.insert(gathered.end(), 2, own * 1024 * 4);
        gathered.insert(gathered.end(), 2, own * 256 * 4);
      }
      std::vector<RankMessage> found;
      for (const GraphOp& op : graph.ops) {
        if (op.is_collective() && op.block == block) found.push_back(op.message);
      }
      ASSERT_EQ(found.size(), gathered.size() + 2);
      for (std::size_t i = 0; i < gathered.size(); ++i)
        expect_message(found[i], MessageKind::kAllGather, plan.cp, gathered[i]);
      expect_message(found[gathered.size()], MessageKind::kAllToAll, ranks, tested.dispatched);
      expect_message(found[gathered.size() + 1], MessageKind::kAllToAll, ranks, tested.output);
    }
    std::vector<RankMessage> head;
    for (const GraphOp& op : graph.ops) {
      if (op.is_collective() && op.part == GraphPart::kHead) head.push_back(op.message);
    }
    ASSERT_EQ(head.size(), 2U);
    expect_message(head[0], MessageKind::kAllGather, plan.cp, tested.head);
    expect_message(head[1], MessageKind::kAllGather, plan.cp, tested.logits);
  }
}

/// Later rows of a prompt see more: the recorded rank has at least the mean of the ranks' work, and of what
/// does not grow with the context just its share.
TEST(ContextParallel, TheRankThatIsRecordedIsTheHeaviest) {
  const ModelConfig config = preset_config("flash");
  const RankBatch prompt{{.start = 0, .num_tokens = 4096, .num_logits = 1}};
  const auto flops = [&](const ParallelPlan& plan, std::string_view name) {
    const RankModel model(config, {}, resolved(plan, config));
    double sum = 0;
    for (const GraphOp& op : record_step(model, prompt, {}, {}).ops) {
      if (op.name == name) sum += op.cost.matrix_flops();
    }
    return sum;
  };
  const ParallelPlan one{.num_devices = 1}, four{.num_devices = 4, .cp = 4};
  EXPECT_GT(flops(four, "indexer"), 0.35 * flops(one, "indexer")) << "the last quarter has 7 / 16 of it";
  EXPECT_LT(flops(four, "indexer"), 0.5 * flops(one, "indexer"));
  EXPECT_DOUBLE_EQ(flops(four, "grouped_linear"), flops(one, "grouped_linear") / 4);
}

}  // namespace
}  // namespace baleen
