// Figures of the released models that the specification recomputes (simulation 10).

#include <gtest/gtest.h>

#include "forward/forward.h"
#include "model/cache_geometry.h"
#include "model/presets.h"
#include "model/tensor_table.h"
#include "simulator/graph/op_graph.h"
#include "simulator/graph/v32_geometry.h"

namespace baleen {
namespace {

struct Known {
  const char* preset;
  std::int64_t bytes_beside_experts, bytes_of_experts;
  double weight_bytes_a_token;
  double cache_mb_4k, cache_mb_64k, cache_mb_1m;
  std::int64_t cache_held_1m;
  double gflops_1m, gflops_fp8_1m;
  double share_of_v32_flops, share_of_v32_cache;
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
                       .gflops_fp8_1m = 123.6,
                       .share_of_v32_flops = 0.103,
                       .share_of_v32_cache = 0.0732};
constexpr Known kPro{.preset = "pro",
                     .bytes_beside_experts = 29'174'270'072,
                     .bytes_of_experts = 835'530'522'624,
                     .weight_bytes_a_token = 39'666'603'980,
                     .cache_mb_4k = 25.17,
                     .cache_mb_64k = 65.19,
                     .cache_mb_1m = 705.6,
                     .cache_held_1m = 5'280'404'480,
                     .gflops_1m = 303.2,
                     .gflops_fp8_1m = 327.6,
                     .share_of_v32_flops = 0.274,
                     .share_of_v32_cache = 0.1048};

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
  const double fp8 = fp8_equivalent_flops(cost);
  EXPECT_NEAR(1e-9 * fp8, GetParam().gflops_fp8_1m, 0.05);
  EXPECT_NEAR(fp8 / fp8_equivalent_flops(v32_token_cost(1 << 20)), GetParam().share_of_v32_flops, 5e-4);
}

TEST_P(KnownAnswers, CacheHeldAtAMillion) {
  const CacheGeometry geometry = cache_geometry(config_, Precision::kReleased);
  // Entries and keys of all positions, and the main layers' windows.
  const double held = geometry.bytes_per_token() * (1 << 20) +
                      static_cast<double>(config_.num_hidden_layers * geometry.window_bytes());
  EXPECT_NEAR(held, static_cast<double>(GetParam().cache_held_1m), 1);
  EXPECT_NEAR(held / static_cast<double>(v32_cache_bytes(1 << 20)), GetParam().share_of_v32_cache, 5e-4);
}

TEST(V32Geometry, TheFigureThatTheReportComparesWith) {
  EXPECT_NEAR(1e-9 * fp8_equivalent_flops(v32_token_cost(1 << 20)), 1196.7, 0.05);
  EXPECT_NEAR(1e-9 * static_cast<double>(v32_cache_bytes(1 << 20)), 50.4, 0.05);
}

INSTANTIATE_TEST_SUITE_P(Released, KnownAnswers, testing::Values(kFlash, kPro),
                         [](const auto& known) { return std::string(known.param.preset); });

}  // namespace
}  // namespace baleen
