// An operation that is one folder and one line: generic code executes, chooses, times, sizes and records it.
// The folder is the example of docs/adding_an_operation.md and docs/adding_a_variant.md, whose code must be
// what is compiled here.
#include "tests/ops/scale/scale.h"

#include <gtest/gtest.h>

#include <numeric>
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

CpuDevice device_with(std::vector<ForcedVariant> forced) {
  const VariantTable<CpuContext> table = cpu_variants(TestOperations());
  return {2, table.scratch_bytes({.max_rows = 8, .hidden_size = 8}, cpu_traits(2)), std::move(forced), table};
}

TEST(Scale, RunsTheBestVariantThatTakesTheArguments) {
  CpuDevice device = device_with({});
  Rows wide(8, 8), odd(8, 7), few(1, 8);
  for (Rows* rows : {&wide, &odd, &few}) {
    device.execute<ops::Scale>(rows->args);
    EXPECT_TRUE(rows->right());
  }
  EXPECT_EQ(device.num_runs("scale", "rows"), 1);
  EXPECT_EQ(device.num_runs("scale", "reference"), 2);
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
  Rows wide(8, 8), odd(8, 7);
  VariantReport report;
  device.set_profiling(true);
  device.set_report(&report);
  device.execute<ops::Scale>(wide.args);
  device.execute<ops::Scale>(odd.args);
  const OpRecord& record = device.profile().records().at("scale");
  EXPECT_EQ(record.calls, 2);
  EXPECT_EQ(record.cost.total_bytes(),
            ops::Scale::cost(wide.args).total_bytes() + ops::Scale::cost(odd.args).total_bytes());
  bool refused = false;
  for (const VariantVerdict& verdict : report.verdicts()) {
    refused |= verdict.variant == "rows" && verdict.outcome == VariantOutcome::kRefused &&
               verdict.reason == "takes widths that are a multiple of 4";
  }
  EXPECT_TRUE(refused);
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
}

TEST(Scale, ThePagesShowWhatIsCompiled) {
  const std::vector<std::string> files{"tests/ops/scale/scale.h", "tests/ops/scale/scale.cc",
                                       "tests/ops/scale/scale_test.cc"};
  test::expect_compiled("docs/adding_an_operation.md", files);
  test::expect_compiled("docs/adding_a_variant.md", files);
}

}  // namespace
}  // namespace baleen
