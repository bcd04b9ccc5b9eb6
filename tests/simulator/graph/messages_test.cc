// Every message of a rank, by plan, against figures derived by hand from the specification of parallel MoE,
// sections 2, 5, 11 and 12.
//
// DeepSeek-V4 Flash: d = 4096; a row in bf16 is 8,192 bytes, in e4m3 with a byte of scale per 128 values 4096
// + 32 = 4,128, in float32 16,384. H = 64 heads of c = 512, G = 8 groups, k = 6 of E = 256 experts, V =
// 129,280, 4 streams. N is the number of rows of the data-parallel group's batch. Rows of a table below stand
// in the order in which a layer sends them.

#include <gtest/gtest.h>

#include "model/presets.h"
#include "simulator/cost/step_estimate.h"
#include "simulator/graph/op_graph.h"

namespace baleen {
namespace {

constexpr MessageKind kAllReduce = MessageKind::kAllReduce, kAllGather = MessageKind::kAllGather,
                      kReduceScatter = MessageKind::kReduceScatter, kAllToAll = MessageKind::kAllToAll,
                      kSend = MessageKind::kSend;

struct Expected {
  const char* what;
  ParallelPlan plan;
  std::int64_t num_rows;            ///< N
  std::vector<RankMessage> layer;   ///< of each block
  std::vector<RankMessage> head;    ///< of the last stage
  std::vector<RankMessage> send{};  ///< of a stage before the last
};

std::vector<Expected> table() {
  return {
      {"one rank: nothing", {.num_devices = 1}, 3, {}, {}},

      // Section 12: all-reduce of wo_b's float32 partials [N, d] = 3 x 16,384. Section 2, path 0: all-reduce
      // of the experts' [N, d]. Logits: each rank has V / 4 = 32,320 columns, 3 x 32,320 x 4.
      {"tensor parallel",
       {.num_devices = 4, .tp = 4},
       3,
       {{kAllReduce, 4, 49152}, {kAllReduce, 4, 49152}},
       {{kAllGather, 4, 387840}}},

      // Section 12: a rank keeps 6 / 4 rounded up = 2 rows. Before attention it puts in 2 x 8,192; partials
      // of all 6 rows are reduce-scattered, 6 x 16,384; dispatch and combine of 2 rows: 2 x 6 copies, 3 of 4
      // leave: 9 x 4,128 and 9 x 8,192. The head mixes streams of the kept rows and gathers like attention
      // does.
      {"sequence parallel",
       {.num_devices = 4, .tp = 4, .sequence_parallel = true},
       6,
       {{kAllGather, 4, 16384}, {kReduceScatter, 4, 98304}, {kAllToAll, 4, 37152}, {kAllToAll, 4, 73728}},
       {{kAllGather, 4, 16384}, {kAllGather, 4, 775680}}},

      // Section 11, a copy for each expert: N k 4,128 x 7/8 = 84 x 4,128 out, 84 x 8,192 back.
      {"data parallel attention, expert parallel",
       {.num_devices = 8, .dp = 8},
       16,
       {{kAllToAll, 8, 346752}, {kAllToAll, 8, 688128}},
       {}},

      // Beyond 256 rows a token travels once to each of 3.885 remote ranks, with ids and weights: 4,128 + 8 x
      // 6 = 4,176 bytes; 300 x 3.885 x 4,176. Combine as before: 300 x 6 x 7/8 x 8,192.
      {"many rows: one copy for each rank",
       {.num_devices = 8, .dp = 8},
       300,
       {{kAllToAll, 8, 4867128}, {kAllToAll, 8, 12902400}},
       {}},

      // Both ranks of a tp group have the same 5 rows; each sends 3 of them (5 / 2 rounded up): 18 copies, 3
      // of 4 leave: 13.5 x 4,128 and x 8,192; then they gather what the other one got back, 3 x 8,192.
      // Logits: 5 x 64,640 x 4.
      {"tensor, data and expert parallel",
       {.num_devices = 4, .tp = 2, .dp = 2},
       5,
       {{kAllReduce, 2, 81920}, {kAllToAll, 4, 55728}, {kAllToAll, 4, 110592}, {kAllGather, 2, 24576}},
       {{kAllGather, 2, 1292800}}},

      // The same with 3 rows kept: nothing to gather behind the experts, everything before attention.
      {"tensor, data, expert and sequence parallel",
       {.num_devices = 4, .tp = 2, .dp = 2, .sequence_parallel = true},
       5,
       {{kAllGather, 2, 24576}, {kReduceScatter, 2, 81920}, {kAllToAll, 4, 55728}, {kAllToAll, 4, 110592}},
       {{kAllGather, 2, 24576}, {kAllGather, 2, 1292800}}},

      // O = 2 < t = 4: a rank needs the 32 heads of 4 groups and has 16: two ranks gather 3 x 16 x 512 x 2;
      // partials are those of 2.
      {"output projection over fewer ranks",
       {.num_devices = 4, .tp = 4, .o_proj_tp = 2},
       3,
       {{kAllGather, 2, 49152}, {kAllReduce, 2, 49152}, {kAllReduce, 4, 49152}},
       {{kAllGather, 4, 387840}}},

      // t = 16 > G = 8: a group's heads lie on two ranks: 1 x 4 x 512 x 2 gathered, 8 ranks add up. Logits:
      // 8,080 columns.
      {"more ranks than groups of heads",
       {.num_devices = 16, .tp = 16},
       1,
       {{kAllGather, 2, 4096}, {kAllReduce, 8, 16384}, {kAllReduce, 16, 16384}},
       {{kAllGather, 16, 32320}}},

      // t = 1, O = 8: N H c 2 x 7/8 = 2 x 65,536 x 7/8; reduce-scatter of [8 N, d] = 16 x 16,384. Experts: 12
      // x 7/8 = 10.5 copies.
      {"data parallel attention, sharded output weights",
       {.num_devices = 8, .dp = 8, .o_proj_tp = 8},
       2,
       {{kAllToAll, 8, 114688}, {kReduceScatter, 8, 262144}, {kAllToAll, 8, 43344}, {kAllToAll, 8, 86016}},
       {}},

      // t = 2, O = 4: the ranks of two dp groups that have the same 32 heads exchange half of them, N 32 c 2
      // / 2 = 4 x 32 x 512; partials of 2 x 4 rows are scattered over 4 ranks, so that each has 2 of its
      // group's 4, and gathers the rest: 2 x 8,192.
      {"output projection over two data-parallel groups",
       {.num_devices = 8, .tp = 2, .dp = 4, .o_proj_tp = 4},
       4,
       {{kAllToAll, 2, 65536},
        {kReduceScatter, 4, 131072},
        {kAllGather, 2, 16384},
        {kAllToAll, 8, 43344},
        {kAllToAll, 8, 86016},
        {kAllGather, 2, 16384}},
       {{kAllGather, 2, 1034240}}},

      // Path 0 whatever the split of experts: all four ranks add up.
      {"split experts, the same tokens",
       {.num_devices = 4, .tp = 4, .ep = 2, .moe_tp = 2},
       3,
       {{kAllReduce, 4, 49152}, {kAllReduce, 4, 49152}},
       {{kAllGather, 4, 387840}}},

      // Section 11, all-gather: each of 16 rows with 6 ids and weights, 16 x (8,192 + 48); outputs return as
      // from an all-to-all, 84 x 8,192.
      {"gathered rows whose outputs return",
       {.num_devices = 8, .dp = 8, .expert_transport = ExpertTransport::kAllGather},
       16,
       {{kAllGather, 8, 131840}, {kAllToAll, 8, 688128}},
       {}},

      // The same, however many rows there are: 300 x 8,240, and 300 x 6 x 7/8 x 8,192.
      {"many gathered rows",
       {.num_devices = 8, .dp = 8, .expert_transport = ExpertTransport::kAllGather},
       300,
       {{kAllGather, 8, 2472000}, {kAllToAll, 8, 12902400}},
       {}},

      // The same by NCCL: rows as FP8, 16 x (4,128 + 48); all places return, 16 x 6 x 7 x 8,192.
      {"gathered rows with places for all assignments",
       {.num_devices = 8, .dp = 8, .expert_transport = ExpertTransport::kNccl},
       16,
       {{kAllGather, 8, 66816}, {kAllToAll, 8, 5505024}},
       {}},

      // Of more tokens than a graph has, the outputs that there are: 300 x 4,176, and 300 x 6 x 7/8 x 8,192.
      {"many gathered rows with places for all assignments",
       {.num_devices = 8, .dp = 8, .expert_transport = ExpertTransport::kNccl},
       300,
       {{kAllGather, 8, 1252800}, {kAllToAll, 8, 12902400}},
       {}},

      // Section 11, both parts of A: 16 x 8,240, then float32 sums of the 8 x 16 rows of the stage, 128 x
      // 16,384, of which (R - 1) / R travel.
      {"gathered rows whose sums are scattered",
       {.num_devices = 8, .dp = 8, .expert_transport = ExpertTransport::kReduceScatter},
       16,
       {{kAllGather, 8, 131840}, {kReduceScatter, 8, 2097152}},
       {}},

      // A rank of a tp group puts in 3 of its group's 5 rows: 3 x 8,240; sums of 4 x 3 rows; then it gathers
      // what the other one got back, 3 x 8,192.
      {"gathered rows, tensor and data parallel",
       {.num_devices = 4, .tp = 2, .dp = 2, .expert_transport = ExpertTransport::kReduceScatter},
       5,
       {{kAllReduce, 2, 81920}, {kAllGather, 4, 24720}, {kReduceScatter, 4, 196608}, {kAllGather, 2, 24576}},
       {{kAllGather, 2, 1292800}}},

      // Ranks that share an expert get its rows by the same all-gather: 8 x 8,240 over all four; then float32
      // partials of 24 outputs, and half of 48 outputs back.
      {"gathered rows, split experts",
       {.num_devices = 4, .dp = 4, .ep = 2, .moe_tp = 2, .expert_transport = ExpertTransport::kAllGather},
       8,
       {{kAllGather, 4, 65920}, {kReduceScatter, 2, 393216}, {kAllToAll, 2, 196608}},
       {}},

      // Ranks with the same 3 rows may send them as well: 1 row each, 6 copies, 3 of 4 leave.
      {"the same tokens, sent",
       {.num_devices = 4, .tp = 4, .expert_transport = ExpertTransport::kAllToAll},
       3,
       {{kAllReduce, 4, 49152}, {kAllToAll, 4, 18576}, {kAllToAll, 4, 36864}, {kAllGather, 4, 8192}},
       {{kAllGather, 4, 387840}}},

      // Half of 48 copies leave: 24 x 4,128; the two ranks of an expert gather the 24 that came to each;
      // float32 partials of their outputs, 24 x 16,384; back 24 x 8,192.
      {"split experts, tokens of one's own",
       {.num_devices = 4, .dp = 4, .ep = 2, .moe_tp = 2},
       8,
       {{kAllToAll, 2, 99072}, {kAllGather, 2, 99072}, {kReduceScatter, 2, 393216}, {kAllToAll, 2, 196608}},
       {}},

      // 4 streams of 4 rows: 4 x 4 x 8,192.
      {"pipeline", {.num_devices = 2, .pp = 2}, 4, {}, {}, {{kSend, 2, 131072}}},

      // Streams stay with the rank that keeps the row: 2 rows. In a layer, of 2 kept rows of 4: 12 copies,
      // half of them leave.
      {"pipeline and sequence parallel",
       {.num_devices = 4, .tp = 2, .pp = 2, .sequence_parallel = true},
       4,
       {{kAllGather, 2, 16384}, {kReduceScatter, 2, 65536}, {kAllToAll, 2, 24768}, {kAllToAll, 2, 49152}},
       {{kAllGather, 2, 16384}, {kAllGather, 2, 1034240}},
       {{kSend, 4, 65536}}},
  };
}

RankBatch decode_batch(std::int64_t num_rows) {
  return RankBatch(static_cast<std::size_t>(num_rows), {.start = 1000, .num_tokens = 1, .num_logits = 1});
}

/// Of those of `ops` that are messages and satisfy `wanted`.
template <class Wanted>
std::vector<RankMessage> messages(const std::vector<GraphOp>& ops, const Wanted& wanted) {
  std::vector<RankMessage> found;
  for (const GraphOp& op : ops) {
    if (op.is_collective() && wanted(op)) found.push_back(op.message);
  }
  return found;
}

void expect_messages(const std::vector<RankMessage>& found, const std::vector<RankMessage>& expected,
                     const std::string& where) {
  ASSERT_EQ(found.size(), expected.size()) << where;
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(message_name(found[i].kind), message_name(expected[i].kind)) << where << ", message " << i;
    EXPECT_EQ(found[i].group_size, expected[i].group_size) << where << ", message " << i;
    // The specification's average of ranks has four digits.
    EXPECT_NEAR(found[i].bytes, expected[i].bytes, 2e-4 * expected[i].bytes) << where << ", message " << i;
  }
}

TEST(Messages, OfEveryPlanAsDerivedByHand) {
  const ModelConfig config = preset_config("flash");
  for (const Expected& expected : table()) {
    const ParallelPlan plan = resolved(expected.plan, config);
    SCOPED_TRACE(expected.what);
    ASSERT_TRUE(violations(plan, config).empty());
    for (std::int64_t index = 0; index < plan.pp; ++index) {
      const Stage stage = even_stage(config, plan.pp, index);
      const RankModel model(config, {}, plan, stage);
      const OpGraph graph = record_step(model, decode_batch(expected.num_rows), {}, {});
      for (std::int64_t block = 0; block < stage.end - stage.begin; ++block) {
        expect_messages(
            messages(graph.ops,
                     [&](const GraphOp& op) { return op.block == block && op.message.kind != kSend; }),
            expected.layer, "layer " + std::to_string(block));
      }
      expect_messages(messages(graph.ops, [](const GraphOp& op) { return op.part == GraphPart::kHead; }),
                      stage.last ? expected.head : std::vector<RankMessage>(), "head");
      expect_messages(messages(graph.ops, [](const GraphOp& op) { return op.message.kind == kSend; }),
                      stage.last ? std::vector<RankMessage>() : expected.send, "stage");
    }
  }
}

/// Two micro-batches of half the queries each send what a batch of that size sends, each in its own order.
TEST(Messages, OfTwoMicroBatches) {
  struct Case {
    ParallelPlan plan;
    std::vector<RankMessage> layer;  ///< of a micro-batch of 8 rows
  };
  const ModelConfig config = preset_config("flash");
  const std::vector<Case> cases{
      // 8 x 6 x 7/8 = 42 copies.
      {{.num_devices = 8, .dp = 8, .dual_batch_overlap = true},
       {{kAllToAll, 8, 173376}, {kAllToAll, 8, 344064}}},
      // 4 kept rows of 8: 24 copies, 3 of 4 leave.
      {{.num_devices = 4, .tp = 2, .dp = 2, .sequence_parallel = true, .dual_batch_overlap = true},
       {{kAllGather, 2, 32768}, {kReduceScatter, 2, 131072}, {kAllToAll, 4, 74304}, {kAllToAll, 4, 147456}}}};
  for (const Case& tested : cases) {
    const RankModel model(config, {}, resolved(tested.plan, config));
    const StageEstimate stage = estimate_stage(model, decode_batch(16), {}, *find_device_profile("h200"));
    for (std::int64_t micro_batch = 0; micro_batch < 2; ++micro_batch) {
      for (std::int64_t block = 0; block < config.num_hidden_layers; ++block) {
        std::vector<RankMessage> found;
        for (const OpEstimate& op : stage.ops) {
          if (op.micro_batch == micro_batch && op.op.block == block && op.op.is_collective())
            found.push_back(op.op.message);
        }
        expect_messages(found, tested.layer, "layer " + std::to_string(block));
      }
    }
  }
}

}  // namespace
}  // namespace baleen
