// Figures of the released models that the specification recomputes (simulation 10).

#include <gtest/gtest.h>

#include "model/forward.h"
#include "model/presets.h"
#include "model/tensor_table.h"
#include "simulator/graph/op_graph.h"

namespace baleen {
namespace {

struct Known {
  const char* preset;
  std::int64_t bytes_beside_experts, bytes_of_experts;
  double weight_bytes_a_token;
  double cache_mb_4k, cache_mb_64k, cache_mb_1m;
  std::int64_t cache_held_1m;
  double gflops_1m, gflops_fp8_1m;
};

constexpr Known kFlash{.preset = "flash",
                       .bytes_beside_experts = 9'017'195'080,
                       .bytes_of_experts = 150'592'290'816,
                       .weight_bytes_a_token = 11'217'572'060,
                       .cache_mb_4k = 11.33,
                       .cache_mb_64k = 38.87,
                       .cache_mb_1m = 479.5,
                       .cache_held_1m = 3'688'172'544,
                       .gflops_1m = 140.3,
                       .gflops_fp8_1m = 123.6};
constexpr Known kPro{.preset = "pro",
                     .bytes_beside_experts = 29'174'270'072,
                     .bytes_of_experts = 835'530'522'624,
                     .weight_bytes_a_token = 39'666'603'980,
                     .cache_mb_4k = 25.17,
                     .cache_mb_64k = 65.19,
                     .cache_mb_1m = 705.6,
                     .cache_held_1m = 5'280'404'480,
                     .gflops_1m = 303.2,
                     .gflops_fp8_1m = 327.6};
constexpr double kV32GFlopsAt1M = 1196.7;

class KnownAnswers : public testing::TestWithParam<Known> {
 protected:
  KnownAnswers()
      : config_(preset_config(GetParam().preset)),
        model_(config_, {}, resolved({.num_devices = 1}, config_)) {}

  /// One token behind `positions - 1` others.
  [[nodiscard]] OpCost token_at(std::int64_t positions) const {
    return record_step(model_, {{.start = positions - 1, .num_tokens = 1, .num_logits = 1}}, {}, {})
        .total_cost();
  }

  ModelConfig config_;
  RankModel model_;
};

TEST_P(KnownAnswers, StoredBytes) {
  std::int64_t experts = 0, others = 0;
  const StorageFormats formats;
  for (const TensorSpec& spec : tensor_table(config_)) {
    (spec.role == TensorRole::kRoutedExpert ? experts : others) += stored_bytes({spec}, formats);
  }
  EXPECT_EQ(others, GetParam().bytes_beside_experts);
  EXPECT_EQ(experts, GetParam().bytes_of_experts);
}

TEST_P(KnownAnswers, WeightsThatOneTokenReads) {
  EXPECT_EQ(token_at(4096).weight_bytes, GetParam().weight_bytes_a_token);
}

TEST_P(KnownAnswers, CacheThatOneTokenReads) {
  EXPECT_NEAR(1e-6 * token_at(4096).cache_bytes, GetParam().cache_mb_4k, 0.005);
  EXPECT_NEAR(1e-6 * token_at(65536).cache_bytes, GetParam().cache_mb_64k, 0.005);
  EXPECT_NEAR(1e-6 * token_at(1 << 20).cache_bytes, GetParam().cache_mb_1m, 0.05);
}

TEST_P(KnownAnswers, FlopsOfATokenAtAMillion) {
  const OpCost cost = token_at(1 << 20);
  EXPECT_NEAR(1e-9 * cost.matrix_flops(), GetParam().gflops_1m, 0.05);
  // What an FP8 product takes is one, wider ones two, FP4 on both sides a half.
  const auto of = [&](MathFormat format) { return cost.flops[static_cast<std::size_t>(format)]; };
  const double fp8 =
      2 * (of(MathFormat::kF32) + of(MathFormat::kBF16)) + of(MathFormat::kFp8) + of(MathFormat::kFp4) / 2;
  EXPECT_NEAR(1e-9 * fp8, GetParam().gflops_fp8_1m, 0.05);
  EXPECT_NEAR(1e-9 * fp8 / kV32GFlopsAt1M, GetParam().gflops_fp8_1m / kV32GFlopsAt1M, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Released, KnownAnswers, testing::Values(kFlash, kPro),
                         [](const auto& known) { return std::string(known.param.preset); });

}  // namespace
}  // namespace baleen
