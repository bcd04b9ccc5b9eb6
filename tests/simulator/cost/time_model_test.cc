#include "simulator/cost/time_model.h"

#include <gtest/gtest.h>

namespace baleen {
namespace {

DeviceProfile device() {
  DeviceProfile d;
  d.name = "round figures";
  d.peak_flops[static_cast<std::size_t>(PeakFormat::kBf16)] = 1e12;
  d.peak_flops[static_cast<std::size_t>(PeakFormat::kFp8)] = 2e12;
  d.scalar_ops_per_second = 1e11;
  d.memory_bytes = 1'000'000'000;
  d.memory_bytes_per_second = 1e11;
  d.efficiency = {.compute = 0.5, .memory = 0.8, .scalar = 1};
  d.graph_seconds = 1e-6;
  d.eager_seconds = 3e-6;
  d.links = {{.size = 8, .bytes_per_second = 1e11, .latency_seconds = 1e-6, .efficiency = 0.5},
             {.size = 64, .bytes_per_second = 1e10, .latency_seconds = 1e-5}};
  return d;
}

GraphOp op(double bf16_flops, double bytes, double scalar_ops = 0) {
  GraphOp made{.name = "linear", .num_rows = 1};
  made.cost.add_flops(MathFormat::kBF16, bf16_flops);
  made.cost.read_bytes = bytes;
  made.cost.scalar_ops = scalar_ops;
  return made;
}

TEST(TimeModel, ARooflineBehindALaunch) {
  const DeviceProfile d = device();
  const OpTime memory = TimeModel(d, true).time_of(op(1e6, 8e6));
  EXPECT_DOUBLE_EQ(memory.seconds, 1e-6 + 1e-4);
  EXPECT_EQ(memory.bound, Bound::kMemory);
  const OpTime compute = TimeModel(d, false).time_of(op(1e9, 8e6, 1e8));
  EXPECT_DOUBLE_EQ(compute.seconds, 3e-6 + 2e-3 + 1e-3) << "matrix and scalar work add up";
  EXPECT_EQ(compute.bound, Bound::kCompute);
  EXPECT_EQ(TimeModel(d, true).time_of(op(0, 8)).bound, Bound::kLatency);
}

TEST(TimeModel, APredictionStandsWhereTheProfileHasNoRow) {
  DeviceProfile d = device();
  GraphOp predicted = op(1e6, 8e6);
  predicted.predicted_seconds = 7e-5;
  EXPECT_DOUBLE_EQ(TimeModel(d, true).time_of(predicted).seconds, 7e-5);
  predicted.backward = predicted.cost;
  EXPECT_DOUBLE_EQ(TimeModel(d, true).backward_time_of(predicted).seconds, 1e-6 + 1e-4)
      << "of the forward alone";
  d.operations["linear"].points = {{.num_rows = 1, .memory = 0.4}};
  EXPECT_DOUBLE_EQ(TimeModel(d, true).time_of(predicted).seconds, 1e-6 + 2e-4) << "what was measured";
}

TEST(TimeModel, CapturedKernelsBeginBeforeTheirPredecessorsEnd) {
  DeviceProfile d = device();
  d.graph_overlap_seconds = 0.6e-6;
  EXPECT_DOUBLE_EQ(TimeModel(d, true).time_of(op(0, 80'000)).seconds, 1e-6 + 1e-6 - 0.6e-6);
  EXPECT_DOUBLE_EQ(TimeModel(d, true).time_of(op(0, 8)).seconds, (1e-6 + 1e-10) / 2);
  EXPECT_DOUBLE_EQ(TimeModel(d, false).time_of(op(0, 80'000)).seconds, 3e-6 + 1e-6) << "launched by itself";
}

TEST(TimeModel, OverlapsWhereTheProfileSaysSo) {
  DeviceProfile d = device();
  d.operations["linear"].overlaps_scalar = true;
  EXPECT_DOUBLE_EQ(TimeModel(d, true).time_of(op(1e9, 8, 1e8)).seconds, 1e-6 + 2e-3);
}

TEST(TimeModel, AFormatThatIsMissingRunsAtTheNextWiderOne) {
  const DeviceProfile d = device();
  GraphOp fp4{.name = "indexer", .num_rows = 1};
  fp4.cost.add_flops(MathFormat::kFp4, 1e9);
  EXPECT_DOUBLE_EQ(TimeModel(d, true).time_of(fp4).compute_seconds, 1e9 / (2e12 * 0.5));
}

TEST(TimeModel, TablesAreReadBetweenTheirPoints) {
  DeviceProfile d = device();
  d.operations["linear"].points = {{.num_rows = 1, .memory = 0.5},
                                   {.num_rows = 100, .compute = 0.9, .memory = 0.9}};
  EXPECT_DOUBLE_EQ(d.efficiency_of("linear", 10).memory, 0.7);
  EXPECT_DOUBLE_EQ(d.efficiency_of("linear", 0.5).memory, 0.5);
  EXPECT_DOUBLE_EQ(d.efficiency_of("linear", 1e6).compute, 0.9);
  EXPECT_DOUBLE_EQ(d.efficiency_of("linear", 1).compute, 0.5) << "the device's own";
  EXPECT_DOUBLE_EQ(d.efficiency_of("experts", 1).memory, 0.8);
}

TEST(TimeModel, TheLastWaveIsWholeToo) {
  DeviceProfile d = device();
  d.num_units = 10;
  d.operations["linear"].rows_per_tile = 1;
  GraphOp eleven = op(1e9, 0);
  eleven.num_rows = 11;
  EXPECT_DOUBLE_EQ(TimeModel(d, true).time_of(eleven).compute_seconds, 2e-3 * 20 / 11);
}

TEST(TimeModel, MessagesTakeTheQuickestWay) {
  const DeviceProfile d = device();
  const TimeModel times(d, true);
  const double rate = 5e10, latency = 1e-6;
  // Small ones in one shot, large ones around a ring.
  EXPECT_DOUBLE_EQ(times.collective_seconds({MessageKind::kAllReduce, 4, 1e3}), latency + 3 * 1e3 / rate);
  EXPECT_DOUBLE_EQ(times.collective_seconds({MessageKind::kAllReduce, 4, 1e9}),
                   6 * latency + 1.5 * 1e9 / rate);
  EXPECT_DOUBLE_EQ(times.collective_seconds({MessageKind::kAllGather, 8, 1e6}), 3 * latency + 7 * 1e6 / rate);
  EXPECT_DOUBLE_EQ(times.collective_seconds({MessageKind::kReduceScatter, 8, 8e6}), 3 * latency + 7e6 / rate);
  EXPECT_DOUBLE_EQ(times.collective_seconds({MessageKind::kSend, 2, 1e6}), latency + 1e6 / rate);
  EXPECT_EQ(times.collective_seconds({MessageKind::kAllReduce, 1, 1e6}), 0);
  // Beyond the domain, the outer level.
  EXPECT_DOUBLE_EQ(times.collective_seconds({MessageKind::kSend, 16, 1e6}), 1e-5 + 1e6 / 1e10);
}

/// By the bytes that a rank sends: of an all-reduce all of it to every other rank, or the parts of a shared
/// sum.
TEST(TimeModel, MeasuredMessagesScaleByWhatARankSends) {
  DeviceProfile d = device();
  d.messages["all_reduce"] = {.points = {{1000, 1e-6}, {1'001'000, 11e-6}},
                              .num_ranks = 2,
                              .seconds_per_further_rank = 5e-7,
                              .whole_up_to_bytes = 10'000};
  d.messages["dispatch"] = {.points = {{0, 4e-6}, {1'000'000, 14e-6}}};
  const TimeModel times(d, true);
  const auto all_reduce = [&](std::int64_t ranks, double bytes) {
    return times.collective_seconds({MessageKind::kAllReduce, ranks, bytes});
  };
  EXPECT_NEAR(all_reduce(2, 1000), 1e-6, 1e-15);
  EXPECT_NEAR(all_reduce(4, 2000), 1e-6 + 5e-8 + 2 * 5e-7, 1e-15) << "6,000 bytes leave, to three ranks";
  EXPECT_NEAR(all_reduce(4, 20'000), 1e-6 + 29e-8 + 2 * 5e-7, 1e-15) << "30,000 leave: two times 3/4";
  // An operation's own times go before those of its kind; what is not measured follows from the links.
  const RankMessage rows{MessageKind::kAllToAll, 2, 500'000};
  EXPECT_NEAR(times.collective_seconds(rows, "dispatch"), 9e-6, 1e-15);
  EXPECT_NEAR(times.collective_seconds(rows, "combine"), 1e-6 + 5e5 / 5e10, 1e-15);
  EXPECT_DOUBLE_EQ(times.collective_seconds({MessageKind::kAllReduce, 16, 1e9}),
                   TimeModel(device(), true).collective_seconds({MessageKind::kAllReduce, 16, 1e9}))
      << "not over outer links";
}

TEST(TimeModel, AMeshUsesTheLinksOfItsGroup) {
  DeviceProfile d = device();
  d.links.front().mesh = true;
  EXPECT_DOUBLE_EQ(TimeModel(d, true).collective_seconds({MessageKind::kSend, 2, 1e6}),
                   1e-6 + 1e6 / (5e10 / 7));
}

}  // namespace
}  // namespace baleen
