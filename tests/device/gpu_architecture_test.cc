// An architecture is a row, a folder of kernels and a module. The made-up one in sm77/ is the example of
// docs/adding_an_architecture.md, whose code must be what is compiled here.
#include "device/gpu_architecture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "device/gpu_module.h"
#include "ops/operation/variant_executor.h"
#include "tests/device/sm77/sm77.h"
#include "tests/ops/scale/scale.h"
#include "tests/support/page_code.h"

namespace baleen {
namespace {

/// The registry with the made-up row behind the others.
std::vector<GpuArchitecture> rows_with_made_up() {
  std::vector<GpuArchitecture> rows(gpu_architectures().begin(), gpu_architectures().end());
  rows.push_back(kSm77);
  return rows;
}

std::string refusal(ComputeCapability capability, std::string_view forced = {}) {
  const std::vector<GpuArchitecture> rows = rows_with_made_up();
  try {
    return std::string(choose_architecture(rows, "A GPU", capability, forced).name) + " was chosen";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(GpuArchitecture, AGpuGetsTheFirstRowThatRunsOnIt) {
  EXPECT_EQ(refusal({9, 0}), "sm90 was chosen");
  for (const ComputeCapability capability :
       {ComputeCapability{8, 0}, {8, 6}, {8, 9}, {9, 1}, {10, 0}, {12, 1}})
    EXPECT_EQ(refusal(capability), "sm80 was chosen") << capability.major << "." << capability.minor;
  EXPECT_EQ(refusal({7, 7}), "sm77 was chosen");
  EXPECT_EQ(refusal({7, 9}), "sm77 was chosen");
  EXPECT_EQ(refusal({7, 8}, "sm77"), "sm77 was chosen");
}

TEST(GpuArchitecture, MachineCodeIsOfTheSameMajorCapability) {
  const auto has = [](std::string_view row, ComputeCapability capability) {
    return architecture_by_name(gpu_architectures(), row).has_machine_code(capability);
  };
  for (const ComputeCapability capability : {ComputeCapability{8, 0}, {8, 6}, {8, 9}})
    EXPECT_TRUE(has("sm80", capability)) << capability.minor;
  EXPECT_TRUE(has("sm90", {9, 0}));
  EXPECT_FALSE(has("sm90", {9, 1})) << "sm_90a is of 9.0 alone";
  constexpr GpuArchitecture kRow{.name = "sm86",
                                 .least = {8, 6},
                                 .most = kAnyLater,
                                 .compiler_flags = "-gencode=arch=compute_86,code=[compute_86,sm_86,sm_120]"};
  EXPECT_FALSE(kRow.has_machine_code({8, 0}));
  EXPECT_TRUE(kRow.has_machine_code({8, 9}));
  EXPECT_FALSE(kRow.has_machine_code({9, 0}));
  EXPECT_FALSE(kRow.has_machine_code({10, 0}));
  EXPECT_TRUE(kRow.has_machine_code({12, 1}));
}

TEST(GpuArchitecture, RowsThatRunTooCanBeForced) {
  std::vector<GpuArchitecture> rows = rows_with_made_up();
  rows.back().most = {9, 0};
  EXPECT_EQ(choose_architecture(rows, "A GPU", {9, 0}).name, "sm90");
  EXPECT_EQ(choose_architecture(rows, "A GPU", {9, 0}, "sm80").name, "sm80");
  EXPECT_EQ(choose_architecture(rows, "A GPU", {9, 0}, "sm77").name, "sm77");
}

TEST(GpuArchitecture, RefusalsListTheRows) {
  const std::string rows =
      "sm90 (compute capability 9.0, as H100, H200; 227 KiB of shared memory a block, FP8 units, tensor "
      "copies), sm80 (compute capability 8.0 and later, as A100, RTX 3090, RTX 4090, L40S, B200, RTX 5090; "
      "99 "
      "KiB of shared memory a block), sm77 (compute capability 7.7 to 7.9, as Made-up 1000; 99 KiB of shared "
      "memory a block)";
  for (const ComputeCapability capability : {ComputeCapability{7, 6}, {7, 0}, {6, 1}}) {
    EXPECT_EQ(refusal(capability), fmt::format("A GPU has compute capability {}.{}; there are kernels for {}",
                                               capability.major, capability.minor, rows));
  }
  EXPECT_EQ(refusal({7, 7}, "sm90"),
            "architecture sm90: needs compute capability 9.0, A GPU has 7.7; there are " + rows);
  EXPECT_EQ(refusal({7, 7}, "sm78"), "architecture sm78: there is none of that name; there are " + rows);
}

TEST(GpuArchitecture, RowsOfTheRegistryAreComplete) {
  std::set<std::string_view> names;
  for (const GpuArchitecture& row : gpu_architectures()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name << " twice";
    EXPECT_EQ(row.traits.architecture, row.name);
    EXPECT_LE(row.least, row.most);
    EXPECT_FALSE(row.gpus.empty() || row.compiler_flags.empty());
    EXPECT_FALSE(row.traits.shares_host_memory);
    EXPECT_GT(row.traits.shared_bytes_per_block, 0);
    EXPECT_GT(row.traits.l2_bytes, 0);
  }
}

/// The build reads names and flags out of the file of rows: what it read is what the program has.
TEST(GpuArchitecture, TheBuildReadsTheRows) {
  std::string rows;
  for (const GpuArchitecture& row : gpu_architectures())
    rows += fmt::format("{}:{}|", row.name, row.compiler_flags);
  EXPECT_EQ(BALEEN_ROWS_OF_BUILD, rows);
}

struct Rows {
  std::vector<float> x, y;
  ScaleArgs args;

  Rows(std::int64_t rows, std::int64_t width) : x(static_cast<std::size_t>(rows * width)), y(x.size()) {
    std::iota(x.begin(), x.end(), 1.0F);
    args = {.x = {x.data(), {rows, width}}, .factor = 2.0F, .y = {y.data(), {rows, width}}};
  }
};

TEST(GpuModule, AnswersWithoutAGpu) {
  const LoadedGpuModule& loaded = gpu_module(kSm77);
  ASSERT_NE(loaded.module, nullptr) << loaded.why_not;
  EXPECT_EQ(&gpu_module(kSm77), &loaded) << "loaded once";
  EXPECT_EQ(loaded.module->scratch_bytes({.max_rows = 8, .hidden_size = 4}, kSm77.traits), 32);
  const Rows narrow(2, 8), wide(1, 99 << 10);
  for (const Rows* rows : {&narrow, &wide}) {
    const void* const args[] = {&rows->args};
    const std::vector<VariantVerdict> verdicts =
        loaded.module->verdicts(kSm77.traits, {}, kOperationSequence<ops::Scale>, args);
    ASSERT_EQ(verdicts.size(), 1u);
    EXPECT_EQ(verdicts[0].variant, "sm77/rows");
    EXPECT_EQ(verdicts[0].reason, rows == &wide ? "keeps a row in shared memory" : "");
    // 2 us, and 64 bytes each way at 0.1 TB/s.
    EXPECT_EQ(verdicts[0].predicted_seconds, rows == &wide ? std::nullopt : std::optional(2e-6 + 128 / 1e11));
  }
  EXPECT_THROW(static_cast<void>(loaded.module->verdicts(kSm77.traits, {{"scale", "sm77/fast"}},
                                                         kOperationSequence<ops::Scale>, nullptr)),
               Error)
      << "what a module throws, the program catches";
}

TEST(GpuModule, ItsKernelsAreExecutedAsThoseOfAnyDevice) {
  Arena scratch(0);
  CudaContext context{.scratch = scratch};
  VariantExecutor<CudaContext> executor(sm77::kernels().variants(), kSm77.traits, context, {});
  const Rows rows(2, 8);
  executor.execute<ops::Scale>(rows.args);
  EXPECT_EQ(rows.y[15], 32.0F);
  EXPECT_EQ(executor.num_runs("scale", "sm77/rows"), 1);
}

TEST(GpuModule, OfOtherSourcesIsNotUsed) {
  static constexpr GpuArchitecture kSm76{.name = "sm76", .gpus = "Made-up 900"};
  const LoadedGpuModule& old = gpu_module(kSm76);
  EXPECT_EQ(old.module, nullptr);
  EXPECT_NE(
      old.why_not.find("baleen_sm76.so was built from other sources than this program; scripts/build.sh "
                       "release gpu_modules builds it again"),
      std::string::npos)
      << old.why_not;
}

TEST(GpuModule, ThatIsNotThereIsNamed) {
  static constexpr GpuArchitecture kSm75{.name = "sm75", .gpus = "Made-up 800"};
  const LoadedGpuModule& missing = gpu_module(kSm75);
  EXPECT_EQ(missing.module, nullptr);
  EXPECT_NE(missing.why_not.find("baleen_sm75.so, the kernels for Made-up 800, is not there"),
            std::string::npos)
      << missing.why_not;
}

TEST(GpuArchitecture, ThePageShowsWhatIsCompiled) {
  test::expect_compiled(
      "docs/adding_an_architecture.md",
      {"tests/device/sm77/sm77.h", "tests/device/sm77/kernels.cc", "tests/device/sm77/module.cc",
       "src/device/sm90/module.cc", "src/device/sm90/CMakeLists.txt", "src/ops/kv_store/cuda/CMakeLists.txt",
       "src/ops/matmul/sm90/CMakeLists.txt"});
}

}  // namespace
}  // namespace baleen
