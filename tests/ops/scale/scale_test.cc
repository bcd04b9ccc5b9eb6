// An operation that is one folder and one line: generic code executes, chooses, times, sizes and records it.
// The folder is the example of docs/adding_an_operation.md and docs/adding_a_variant.md, whose code must be
// what is compiled here.
#include "tests/ops/scale/scale.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <vector>

#include "base/error.h"
#include "device/cpu_device.h"
#include "simulator/graph/recording_device.h"
#include "tests/support/page_code.h"

namespace baleen {
namespace {

using TestOperations = TypeList<ops::Scale>;  // the one line

struct Rows {
  std::vector<float> x, y;
  ScaleArgs args;

  Rows(std::int64_t rows, std::int64_t width) : x(static_cast<std::size_t>(rows * width)), y(x.size()) {
    std::iota(x.begin(), x.end(), 1.0F);
    args = {.x = {x.data(), {rows, width}}, .factor = 2.0F, .y = {y.data(), {rows, width}}};
  }
  [[nodiscard]] bool right() const {
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (y[i] != 2.0F * x[i]) return false;
    }
    return true;
  }
};

/// Of rows whose work is worth waking threads for.
constexpr std::int64_t kWide = 4096;

CpuDevice device_with(std::vector<ForcedVariant> forced) {
  const VariantTable<CpuContext> table = cpu_variants(TestOperations());
  return {2, table.scratch_bytes({.max_rows = 8, .hidden_size = kWide}, cpu_traits(2)), std::move(forced),
          table};
}

TEST(Scale, RunsTheVariantThatIsPredictedToBeQuickest) {
  CpuDevice device = device_with({});
  Rows wide(8, kWide), odd(8, kWide - 1), few(1, 8);
  for (Rows* rows : {&wide, &odd, &few}) {
    device.execute<ops::Scale>(rows->args);
    EXPECT_TRUE(rows->right());
  }
  EXPECT_EQ(device.num_runs("scale", "rows"), 1);
  EXPECT_EQ(device.num_runs("scale", "reference"), 2);
}

/// Kept by the key of a call, and by which variants take it: rows like the first, fewer, the first again.
TEST(Scale, AChoiceIsKeptForCallsOfItsKeyAlone) {
  CpuDevice device = device_with({});
  Rows wide(8, kWide), other(8, kWide), few(1, 8);
  for (Rows* rows : {&wide, &few, &other, &few, &wide}) device.execute<ops::Scale>(rows->args);
  EXPECT_EQ(device.num_runs("scale", "rows"), 3);
  EXPECT_EQ(device.num_runs("scale", "reference"), 2);
  EXPECT_TRUE(wide.right() && other.right() && few.right());
}

/// Before one without a prediction comes one with, of equal ones the first; and before variants of one
/// operation one that does both of a sequence.
TEST(Scale, PredictionsDecideAmongVariantsOfTheSameOperations) {
  using One = CpuVariant<ops::Scale>;
  using Both = CpuVariant<ops::Scale, ops::Scale>;
  const auto second = [](const ScaleArgs& /*args*/, const DeviceTraits& /*traits*/) { return 1.0; };
  const auto run = [](const ScaleArgs& /*args*/, CpuContext& /*context*/) {};
  const std::array<One, 4> ones{
      {{.name = "unknown", .run = run},
       {.name = "first", .run = run, .predict = second},
       {.name = "equal", .run = run, .predict = second},
       {.name = "never",
        .run = run,
        .why_not = [](const ScaleArgs& /*args*/, const DeviceTraits& /*traits*/) -> std::optional<Reason> {
          return "takes nothing";
        },
        .predict = [](const ScaleArgs& /*args*/, const DeviceTraits& /*traits*/) { return 0.0; }}}};
  const std::array<Both, 1> both{
      {{.name = "both",
        .run = [](const ScaleArgs& /*one*/, const ScaleArgs& /*other*/, CpuContext& /*context*/) {}}}};
  VariantTable<CpuContext> table;
  table.add(std::span<const One>(ones));
  table.add(std::span<const Both>(both));
  const VariantChoice choice(table, cpu_traits(2), {});
  Rows rows(8, 8);
  const void* const args[] = {&rows.args, &rows.args};
  const auto chosen_of = [&](const OperationSequence& sequence) {
    return choice.variant(choice.choose(choice.candidates(sequence.parts), args)).name;
  };
  EXPECT_EQ(chosen_of(kOperationSequence<ops::Scale>), "first");
  EXPECT_EQ((chosen_of(kOperationSequence<ops::Scale, ops::Scale>)), "both");
}

TEST(Scale, AForcedVariantRunsAndNoOther) {
  CpuDevice rows = device_with({{"scale", "rows"}});
  Rows few(1, 8), odd(8, 7);
  rows.execute<ops::Scale>(few.args);  // slower, but forced
  EXPECT_TRUE(few.right());
  EXPECT_EQ(rows.num_runs("scale", "rows"), 1);
  EXPECT_THROW(rows.execute<ops::Scale>(odd.args), Error);
  CpuDevice reference = device_with({{"", "reference"}});
  Rows wide(8, 8);
  reference.execute<ops::Scale>(wide.args);
  EXPECT_EQ(reference.num_runs("scale", "reference"), 1);
  EXPECT_EQ(reference.num_runs("scale", "rows"), 0);
}

TEST(Scale, ForcingWhatThereIsNotIsASentence) {
  EXPECT_THROW(device_with({{"scale", "fast"}}), Error);
  EXPECT_THROW(device_with({{"turn", "rows"}}), Error);
  EXPECT_THROW(device_with({{"", "fast"}}), Error);
  try {
    device_with({{"scale", "fast"}});
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("rows, reference"), std::string::npos) << error.what();
  }
  EXPECT_EQ(parse_forced_variant("linear=sm90/few"), (ForcedVariant{"linear", "sm90/few"}));
  EXPECT_EQ(parse_forced_variant("reference"), (ForcedVariant{"", "reference"}));
  EXPECT_THROW(static_cast<void>(parse_forced_variant("=rows")), Error);
  EXPECT_THROW(static_cast<void>(parse_forced_variant("scale=")), Error);
}

TEST(Scale, IsProfiledAndReportedByGenericCode) {
  CpuDevice device = device_with({});
  Rows wide(8, kWide), odd(8, kWide - 1), few(1, 8);
  VariantReport report;
  device.set_profiling(true);
  device.set_report(&report);
  device.execute<ops::Scale>(wide.args);
  device.execute<ops::Scale>(odd.args);
  const OpRecord& record = device.profile().records().at("scale");
  EXPECT_EQ(record.calls, 2);
  EXPECT_EQ(record.cost.total_bytes(),
            ops::Scale::cost(wide.args).total_bytes() + ops::Scale::cost(odd.args).total_bytes());
  device.execute<ops::Scale>(few.args);
  ASSERT_EQ(report.verdicts().size(), 6u);  // two variants of three calls
  std::array<VariantVerdict, 6> verdicts;
  std::ranges::copy(report.verdicts(), verdicts.begin());
  const auto& [wide_rows, wide_reference, odd_rows, odd_reference, few_rows, few_reference] = verdicts;
  EXPECT_EQ(wide_rows.outcome, VariantOutcome::kChosen);
  EXPECT_EQ(wide_reference.outcome, VariantOutcome::kSlower);
  EXPECT_LT(wide_rows.predicted_seconds, wide_reference.predicted_seconds);
  EXPECT_EQ(odd_rows.outcome, VariantOutcome::kRefused);
  EXPECT_EQ(odd_rows.reason, "takes widths that are a multiple of 4");
  EXPECT_EQ(odd_rows.predicted_seconds, std::nullopt);
  EXPECT_EQ(few_rows.outcome, VariantOutcome::kSlower);
  EXPECT_EQ(few_reference.outcome, VariantOutcome::kChosen);
  // What ran was timed, and nothing else.
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(report.time(i).calls, report.verdicts()[i].outcome == VariantOutcome::kChosen ? 1 : 0) << i;
  }
}

TEST(Scale, IsSizedAndRecordedByGenericCode) {
  EXPECT_GE(cpu_variants(TestOperations()).scratch_bytes({.max_rows = 16, .hidden_size = 32}, cpu_traits(1)),
            16 * 32 * 4);
  OpGraph graph;
  RecordingDevice recorder({.activations = ElementType::kF32}, graph);
  Rows rows(8, 8);
  recorder.execute<ops::Scale>(rows.args);
  ASSERT_EQ(graph.ops.size(), 1u);
  EXPECT_EQ(graph.ops[0].name, "scale");
  EXPECT_EQ(graph.ops[0].num_rows, 8);
  EXPECT_EQ(graph.ops[0].cost.scalar_ops, 64);
  EXPECT_EQ(graph.ops[0].predicted_seconds, std::nullopt);
}

/// The simulator takes what the variant is predicted to take that a device would choose.
TEST(Scale, IsPricedByThePredictionOfTheChosenVariant) {
  const VariantChoice choice(cpu_variants(TestOperations()), cpu_traits(2), {});
  OpGraph graph;
  RecordingDevice recorder({.activations = ElementType::kF32,
                            .predict =
                                [&](const OperationSequence& sequence, const void* const* args) {
                                  const auto all = verdicts(choice, sequence, args);
                                  const auto chosen = std::ranges::find(all, VariantOutcome::kChosen,
                                                                        &VariantVerdict::outcome);
                                  return chosen->predicted_seconds;
                                }},
                           graph);
  Rows wide(8, kWide), few(1, 8);
  for (const Rows* rows : {&wide, &few}) recorder.execute<ops::Scale>(rows->args);
  const auto variants = ops::Scale::cpu_variants();
  EXPECT_EQ(graph.ops[0].predicted_seconds, variants[0].predict(wide.args, cpu_traits(2)));
  EXPECT_EQ(graph.ops[1].predicted_seconds, variants[1].predict(few.args, cpu_traits(2)));
}

TEST(Scale, ThePagesShowWhatIsCompiled) {
  const std::vector<std::string> files{"tests/ops/scale/scale.h", "tests/ops/scale/scale.cc",
                                       "tests/ops/scale/scale_test.cc"};
  test::expect_compiled("docs/adding_an_operation.md", files);
  test::expect_compiled("docs/adding_a_variant.md", files);
}

}  // namespace
}  // namespace baleen
