#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "ops/sample/cuda/sample.h"
#include "tests/support/random_weights.h"
#include "tests/support/test_cuda.h"

namespace baleen::BALEEN_ARCH {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::int64_t kFlashVocab = 129280;

std::vector<TokenId> reference(const std::vector<float>& logits, const std::vector<SampleRow>& rows) {
  std::vector<TokenId> ids(rows.size(), -99);
  const auto num_rows = static_cast<std::int64_t>(rows.size());
  sample_ref({.logits = {logits.data(), {num_rows, static_cast<std::int64_t>(logits.size()) / num_rows}},
              .rows = rows,
              .ids = ids});
  return ids;
}

std::vector<TokenId> on_device(const std::vector<float>& logits, const std::vector<SampleRow>& rows) {
  test::TestCuda cuda(1 << 20);
  const auto num_rows = static_cast<std::int64_t>(rows.size());
  auto* ids = cuda.allocate<TokenId>(num_rows);
  BALEEN_ARCH::sample(
      {.logits = {cuda.upload(logits), {num_rows, static_cast<std::int64_t>(logits.size()) / num_rows}},
       .rows = rows,
       .ids = {ids, rows.size()}},
      cuda.context());
  cuda.synchronise();
  return cuda.download(ids, num_rows);
}

TEST(SampleOnGpu, GreedyIsTheFirstOfTheLargest) {
  BALEEN_NEEDS_GPU();
  std::mt19937 random(3);
  for (const std::int64_t vocab : {std::int64_t{1}, std::int64_t{5}, std::int64_t{513}, std::int64_t{4096},
                                   std::int64_t{32768}, kFlashVocab}) {
    for (const std::size_t num_rows : {1, 3, 70}) {
      std::vector<float> logits = test::random_values(num_rows * static_cast<std::size_t>(vocab), 1, 3.0F);
      for (std::size_t row = 0; row < num_rows; row += 2) {  // equals, signed zeros and -infinity among them
        for (std::int64_t i = 0; i < vocab; ++i) {
          const float values[] = {-0.0F, 0.0F, -1.0F, -kInfinity};
          logits[row * static_cast<std::size_t>(vocab) + static_cast<std::size_t>(i)] = values[random() % 4];
        }
        logits[row * static_cast<std::size_t>(vocab) + random() % static_cast<std::size_t>(vocab)] = 0.0F;
      }
      const std::vector<SampleRow> rows(num_rows);
      EXPECT_EQ(on_device(logits, rows), reference(logits, rows)) << vocab << ", " << num_rows << " rows";
    }
  }
}

TEST(SampleOnGpu, BrokenLogitsGiveNoToken) {
  BALEEN_NEEDS_GPU();
  constexpr std::size_t kVocab = 20000;
  for (const double temperature : {0.0, 1.0}) {
    std::vector<float> logits = test::random_values(6 * kVocab, 1);
    logits[0 * kVocab + 19999] = std::nanf("");
    logits[1 * kVocab + 5] = kInfinity;
    std::fill_n(logits.begin() + 2 * kVocab, kVocab, -kInfinity);
    logits[3 * kVocab + 77] = -std::nanf("");
    logits[4 * kVocab + 77] = -kInfinity;  // never drawn, but no reason to stop
    std::fill_n(logits.begin() + 5 * kVocab, kVocab, -kInfinity);
    logits[5 * kVocab + 12345] = -1e30F;
    const std::vector<SampleRow> rows(
        6, {.temperature = temperature, .top_k = 50, .top_p = 0.9, .uniform = 0.3});
    const std::vector<TokenId> ids = on_device(logits, rows);
    EXPECT_EQ(std::vector<TokenId>(ids.begin(), ids.begin() + 4), std::vector<TokenId>(4, kNoToken));
    EXPECT_GE(ids[4], 0);
    EXPECT_EQ(ids[5], 12345);
  }
}

std::vector<SampleRow> ways() {
  return {{.temperature = 1.0},
          {.temperature = 0.6, .top_k = 40},
          {.temperature = 1.3, .top_p = 0.9},
          {.temperature = 1.0, .min_p = 0.05},
          {.temperature = 0.8, .top_k = 100, .top_p = 0.95, .min_p = 0.01},
          {.temperature = 30.0, .top_k = 7},
          {.temperature = 0.7, .top_k = 20000, .top_p = 0.999},
          {.temperature = 1.0, .top_p = 1e-9},
          {.temperature = 1e-4},
          {.temperature = 1.0, .top_k = 1 << 20}};
}

/// Where nothing within a few float32 roundings of the draw or of top-p would change the reference's choice,
/// the device's is the same.
TEST(SampleOnGpu, DrawsWhatTheReferenceDraws) {
  BALEEN_NEEDS_GPU();
  constexpr double kRounding = 4e-6;
  std::mt19937 random(4);
  int num_decided = 0, num_rows = 0;
  for (const std::int64_t vocab : {std::int64_t{7}, std::int64_t{512}, std::int64_t{4096}, kFlashVocab}) {
    const auto width = static_cast<std::size_t>(vocab);
    std::vector<SampleRow> rows;
    for (int repeat = 0; repeat < (vocab == kFlashVocab ? 2 : 6); ++repeat) {
      for (SampleRow row : ways()) {
        row.uniform = std::uniform_real_distribution(0.0, 1.0)(random);
        rows.push_back(row);
      }
    }
    std::vector<float> logits = test::random_values(rows.size() * width, 9, 3.0F);
    for (std::size_t row = 0; row < rows.size(); row += 3) {
      for (std::size_t i = 0; i < width; ++i)
        logits[row * width + i] = std::rint(4 * logits[row * width + i]) / 4;
    }
    const std::vector<TokenId> got = on_device(logits, rows), want = reference(logits, rows);
    std::vector<SampleRow> less = rows, more = rows;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      less[i].uniform = std::max(0.0, rows[i].uniform - kRounding);
      more[i].uniform = std::min(1.0 - kRounding, rows[i].uniform + kRounding);
      if (rows[i].top_p < 1)
        less[i].top_p *= 1 - kRounding, more[i].top_p = std::min(1.0, rows[i].top_p * (1 + kRounding));
    }
    const std::vector<TokenId> before = reference(logits, less), after = reference(logits, more);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      ++num_rows;
      if (before[i] != want[i] || after[i] != want[i]) continue;
      ++num_decided;
      EXPECT_EQ(got[i], want[i]) << "vocabulary " << vocab << ", row " << i << ", temperature "
                                 << rows[i].temperature << ", top-k " << rows[i].top_k << ", top-p "
                                 << rows[i].top_p;
    }
  }
  EXPECT_GE(num_decided, num_rows * 4 / 5);
}

/// The first and the last token of what the filters keep, found by draws at both ends.
TEST(SampleOnGpu, EqualsAreKeptInOrderOfId) {
  BALEEN_NEEDS_GPU();
  for (const std::int64_t vocab : {std::int64_t{300}, kFlashVocab}) {
    std::vector<SampleRow> rows;
    for (const double uniform : {0.0, 1 - 1e-9}) {
      for (const int k : {1, 2, 33, 100, 200})
        rows.push_back({.temperature = 2.0, .top_k = k, .uniform = uniform});
      for (const double p : {1e-9, 0.1003, 0.5001, 0.77777}) {
        rows.push_back({.temperature = 2.0, .top_p = p, .uniform = uniform});
      }
      rows.push_back({.temperature = 2.0, .top_k = 90, .top_p = 0.501, .uniform = uniform});
      rows.push_back({.temperature = 2.0, .min_p = 1.0, .uniform = uniform});
    }
    for (const bool two_levels : {false, true}) {
      std::vector<float> logits(rows.size() * static_cast<std::size_t>(vocab), 1.25F);
      if (two_levels) {
        for (std::size_t i = 0; i < logits.size(); i += 3) logits[i] = 0.75F;
      }
      EXPECT_EQ(on_device(logits, rows), reference(logits, rows)) << vocab;
    }
  }
}

TEST(SampleOnGpu, RowsDoNotDependOnCompany) {
  BALEEN_NEEDS_GPU();
  constexpr std::size_t kVocab = 40000;
  std::vector<SampleRow> rows;
  for (int repeat = 0; repeat < 8; ++repeat) {
    for (SampleRow row : ways()) {
      row.uniform = 0.0123 + 0.1 * repeat;
      rows.push_back(row);
    }
  }
  const std::vector<float> logits = test::random_values(rows.size() * kVocab, 9, 3.0F);
  const std::vector<TokenId> together = on_device(logits, rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto first = logits.begin() + static_cast<std::ptrdiff_t>(i * kVocab);
    EXPECT_EQ(on_device({first, first + kVocab}, {rows[i]})[0], together[i]);
  }
}

}  // namespace
}  // namespace baleen::BALEEN_ARCH
