// Which kernels of Hopper the predictions choose, on 132 multiprocessors, for the shapes of Flash, Pro and
// V4.1 and all numbers of rows up to 8,192, against a table of what fixed thresholds chose before
// (kernel_choices.csv: `before`, and `now` where it differs, with the reason). None of it needs a GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "comm/rank_group.h"
#include "device/gpu_architecture.h"
#include "ops/experts/sm90/expert_time.h"
#include "ops/fused_experts/sm90/fused_time.h"
#include "ops/linear/sm90/linear_time.h"
#include "ops/matmul/sm90/bf16_time.h"

namespace baleen {
namespace {

constexpr std::int64_t kMaxRows = 8192;
const DeviceTraits& kTraits = architecture_by_name(gpu_architectures(), "sm90").traits;

/// "few 1-64; many 65-8192"
std::string ranges(const std::function<std::string(std::int64_t)>& kernel_of, std::int64_t most = kMaxRows) {
  std::string text, last;
  std::int64_t from = 1;
  for (std::int64_t rows = 1; rows <= most + 1; ++rows) {
    const std::string kernel = rows <= most ? kernel_of(rows) : "";
    if (kernel == last) continue;
    if (!last.empty()) text += fmt::format("{}{} {}-{}", text.empty() ? "" : "; ", last, from, rows - 1);
    last = kernel;
    from = rows;
  }
  return text;
}

std::vector<std::string> split(const std::string& text, char divider) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, divider);) parts.push_back(part);
  return parts;
}

std::vector<std::int64_t> numbers(const std::string& sum) {
  std::vector<std::int64_t> all;
  for (const std::string& part : split(sum, '+')) all.push_back(std::stoll(part));
  return all;
}

std::string linear_kernels(std::int64_t num_inputs, const std::vector<std::int64_t>& outputs) {
  std::vector<WeightMatrix> weights;
  for (const std::int64_t rows : outputs)
    weights.push_back({.format = WeightFormat::kFp8, .rows = rows, .cols = num_inputs});
  std::vector<LinearOutput> all;
  for (const WeightMatrix& weight : weights) all.push_back({.weight = &weight});
  return ranges([&](std::int64_t rows) {
    const LinearArgs args{.x = ConstActivations<2>(View<const Bf16Bits, 2>(nullptr, {rows, num_inputs})),
                          .outputs = all};
    const double few = sm90::linear_seconds<sm90::few_tokens_work>(args, kTraits);
    return few <= sm90::linear_seconds<sm90::many_tokens_work>(args, kTraits) ? "few_tokens" : "many_tokens";
  });
}

std::string bf16_kernels(bool has_fp8_weights, std::int64_t num_inputs, std::int64_t num_groups,
                         const std::vector<std::int64_t>& outputs, bool one_segment) {
  return ranges([&](std::int64_t rows) {
    sm90::bf16_time::Shape shape{.num_rows = rows,
                                 .num_inputs = num_inputs,
                                 .num_groups = num_groups,
                                 .num_segments = one_segment ? 1 : sm90::bf16_time::segments_of(outputs[0]),
                                 .has_fp8_weights = has_fp8_weights};
    for (const std::int64_t count : outputs) shape.add(count);
    switch (sm90::bf16_time::kernel_for(shape, kTraits.num_units, kTraits.rates)) {
      case sm90::bf16_time::Kernel::kStream:
        return "stream";
      case sm90::bf16_time::Kernel::kSplit:
        return "split";
      case sm90::bf16_time::Kernel::kTile:
        return "tile";
    }
    return "?";
  });
}

TEST(KernelChoices, AreThoseOfTheThresholdsBefore) {
  std::ifstream file("tests/ops/choices/kernel_choices.csv");
  ASSERT_TRUE(file);
  std::string line;
  std::getline(file, line);
  EXPECT_EQ(line, "operation,call,inputs,groups,outputs,before,now,why");
  int num_lines = 0;
  while (std::getline(file, line)) {
    ++num_lines;
    std::array<std::string, 8> cells;
    std::ranges::move(split(line, ','), cells.begin());
    const auto& [operation, call, inputs, groups, outputs, before, now, why] = cells;
    EXPECT_EQ(now.empty(), why.empty()) << line;
    const bool one_segment = operation == "fp8 as bf16" || call.find("wo_a") != std::string::npos;
    const std::string chosen = operation == "linear"
                                   ? linear_kernels(std::stoll(inputs), numbers(outputs))
                                   : bf16_kernels(operation == "fp8 as bf16", std::stoll(inputs),
                                                  std::stoll(groups), numbers(outputs), one_segment);
    EXPECT_EQ(chosen, now.empty() ? before : now) << call;
  }
  EXPECT_GT(num_lines, 50);
}

/// An expert of a model, and as many of them as a rank has.
class Experts {
 public:
  Experts(std::int64_t width, std::int64_t inner, std::int64_t count)
      : one_{.w1 = matrix(inner, width), .w2 = matrix(width, inner), .w3 = matrix(inner, width)},
        shared_(one_),
        routed_(static_cast<std::size_t>(count), one_) {
    for (WeightMatrix* matrix : {&shared_.w1, &shared_.w2, &shared_.w3}) matrix->format = WeightFormat::kFp8;
  }

  [[nodiscard]] ExpertsArgs call(std::int64_t rows, std::int64_t num_selected, bool has_shared) const {
    const Activations<2> values(View<Bf16Bits, 2>(nullptr, {rows, one_.w1.cols}));
    return {.x = values,
            .ids = {nullptr, {rows, num_selected}},
            .routed = routed_,
            .shared = has_shared ? &shared_ : nullptr,
            .out = values};
  }

 private:
  static WeightMatrix matrix(std::int64_t rows, std::int64_t cols) {
    return {.format = WeightFormat::kFp4, .rows = rows, .cols = cols};
  }

  ExpertWeights one_, shared_;
  std::vector<ExpertWeights> routed_;
};

/// What the kernels have room for decides, as before: each is predicted to be quicker than those with more.
TEST(KernelChoices, OfExpertsAreThoseWithLeastRoom) {
  const auto kernels = [](const Experts& experts, bool has_shared) {
    return ranges([&](std::int64_t rows) {
      constexpr std::int64_t kSelected = 6;
      const ExpertsArgs call = experts.call(rows, kSelected, has_shared);
      std::vector<std::pair<double, std::string>> fitting;
      if (rows <= 4) fitting.emplace_back(sm90::four_tokens_seconds(call, kTraits), "four_tokens");
      if (rows <= 64) fitting.emplace_back(sm90::few_tokens_seconds(call, kTraits), "few_tokens");
      fitting.emplace_back(sm90::many_tokens_seconds(call, kTraits), "many_tokens");
      return quickest(fitting, [](const auto& one) { return one.first; }).second;
    });
  };
  for (const bool has_shared : {false, true}) {
    for (const std::int64_t ranks : {1, 2, 8}) {
      const std::string before = "four_tokens 1-4; few_tokens 5-64; many_tokens 65-8192";
      EXPECT_EQ(kernels(Experts(4096, 2048, 256 / ranks), has_shared), before) << ranks << " ranks, Flash";
      EXPECT_EQ(kernels(Experts(7168, 3072, 384 / ranks), has_shared), before) << ranks << " ranks, Pro";
      EXPECT_EQ(kernels(Experts(4096, 2048 / ranks, 256), has_shared), before) << ranks << " parts, Flash";
    }
  }
}

/// The steps that ranks pad to, against the threshold before: five assignments for each expert.
TEST(KernelChoices, OfFusedExpertsAreThoseOfTheThresholdBefore) {
  constexpr std::int64_t kSelected = 6, kMaxTokens = 256;
  for (const std::int64_t num_experts : {256, 384}) {
    for (const std::int64_t ranks : {2, 4, 8}) {
      const Experts experts(num_experts == 256 ? 4096 : 7168, num_experts == 256 ? 2048 : 3072,
                            num_experts / ranks);
      const RankGroup stage = RankGroup::strided(0, 1, ranks, 0);
      const DispatchArgs dispatch{.placement = {.stage = &stage, .ep = ranks, .num_experts = num_experts}};
      const DeviceTraits padding{.max_replayed_rows = kMaxTokens};
      for (std::int64_t rows = 1; rows <= kMaxTokens; ++rows) {
        const std::int64_t places = padding.padded_rows(rows) * kSelected;
        ExpertsArgs routed = experts.call(ranks * places, 1, false);
        routed.hints.chosen_per_token = kSelected;
        const ExpertsArgs shared = experts.call(rows, 0, true);
        const bool few = sm90::fused_few_seconds(dispatch, routed, shared, {}, kTraits) <=
                         sm90::fused_many_seconds(dispatch, routed, shared, {}, kTraits);
        EXPECT_EQ(few, ranks * places <= 5 * num_experts) << rows << " rows on " << ranks << " ranks";
      }
    }
  }
}

/// What a row of bench/results/kernels-h200.csv is predicted to take; none: no kernel with a prediction.
std::optional<double> predicted_seconds(const std::string& kernel, const std::string& shape) {
  const auto bf16 = [&](std::vector<std::int64_t> outputs, std::int64_t num_groups, int num_segments,
                        bool has_fp8_weights) {
    sm90::bf16_time::Shape call{.num_rows = std::stoll(shape.substr(shape.find('=') + 1)),
                                .num_inputs = 4096,
                                .num_groups = num_groups,
                                .num_segments = num_segments,
                                .has_fp8_weights = has_fp8_weights};
    for (const std::int64_t count : outputs) call.add(count);
    return sm90::bf16_time::seconds(call, kTraits.num_units, kTraits.rates);
  };
  if (kernel == "router gate") return bf16({256}, 1, 8, false);
  if (kernel == "compressor") return bf16({1024, 1024}, 1, 8, false);
  if (kernel == "compressor + indexer") return bf16({1024, 1024, 256, 256, 64}, 1, 8, false);
  if (kernel == "grouped_linear Flash FP8") return bf16({8192}, 8, 1, true);
  if (kernel == "grouped_linear Pro FP8") return bf16({16384}, 16, 1, true);
  if (kernel == "grouped_linear Flash BF16") return bf16({8192}, 8, 1, false);
  if (kernel == "lm_head") return bf16({129280}, 1, 1, false);
  if (kernel == "linear_fp8") {  // "wq_b+indexer 1x40960x1024"
    const std::vector<std::string> extents = split(shape.substr(shape.rfind(' ') + 1), 'x');
    const WeightMatrix weight{
        .format = WeightFormat::kFp8, .rows = std::stoll(extents[1]), .cols = std::stoll(extents[2])};
    const LinearOutput output{.weight = &weight};
    const LinearArgs args{
        .x = ConstActivations<2>(View<const Bf16Bits, 2>(nullptr, {std::stoll(extents[0]), weight.cols})),
        .outputs = {&output, 1}};
    return std::min(sm90::linear_seconds<sm90::few_tokens_work>(args, kTraits),
                    sm90::linear_seconds<sm90::many_tokens_work>(args, kTraits));
  }
  if (kernel == "experts") {  // "16 tokens + shared expert"
    const std::int64_t tokens = std::stoll(shape);
    const Experts experts(4096, 2048, 256);
    const ExpertsArgs call = experts.call(tokens, 6, shape.find("shared") != std::string::npos);
    return tokens <= 4    ? sm90::four_tokens_seconds(call, kTraits)
           : tokens <= 64 ? sm90::few_tokens_seconds(call, kTraits)
                          : sm90::many_tokens_seconds(call, kTraits);
  }
  return std::nullopt;
}

TEST(KernelChoices, PredictionsAreNearWhatAnH200Took) {
  std::ifstream file("bench/results/kernels-h200.csv");
  ASSERT_TRUE(file);
  std::vector<double> errors;
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> cells = split(line, ',');
    const std::optional<double> predicted = predicted_seconds(cells[0], cells[1]);
    if (!predicted) continue;
    errors.push_back(std::abs(1e6 * *predicted / std::stod(cells[2]) - 1));
    EXPECT_LT(errors.back(), 0.5) << line << ": predicted " << 1e6 * *predicted;
  }
  ASSERT_GT(errors.size(), 70u);
  std::ranges::sort(errors);
  EXPECT_LT(errors[errors.size() / 2], 0.1) << "the median";
}

}  // namespace
}  // namespace baleen
