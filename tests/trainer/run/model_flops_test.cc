// Counts by hand, for a model of two layers with indexers.
#include "trainer/run/model_flops.h"

#include <gtest/gtest.h>

#include <numeric>

#include "model/presets.h"

namespace baleen {
namespace {

constexpr auto kAttention = static_cast<std::size_t>(ModelPart::kAttention);

/// Documents of 18 and 5 tokens.
TrainingBatch two_documents() {
  TrainingBatch batch;
  batch.tokens.assign(23, 1);
  batch.documents = {{0, 18}, {18, 23}};
  return batch;
}

double sum(const std::array<double, kNumModelParts>& parts) {
  return std::accumulate(parts.begin(), parts.end(), 0.0);
}

class ModelFlopsTest : public testing::Test {
 protected:
  ModelFlopsTest() : config_(preset_config("tiny-flash")), flops_(config_) {}

  [[nodiscard]] PassFlops pass(const PassOptions& options) const {
    return flops_.pass(two_documents(), options);
  }

  ModelConfig config_;
  ModelFlops flops_;
};

TEST_F(ModelFlopsTest, AnIndexerIsCountedWhereItChoosesOrLearns) {
  const PassFlops without = pass({.mtp_weight = 0, .dense_attention = true});
  const PassFlops learning = pass({.mtp_weight = 0, .dense_attention = true, .indexer_weight = 1});
  const auto heads = static_cast<double>(config_.index_n_heads),
             width = static_cast<double>(config_.index_head_dim),
             hidden = static_cast<double>(config_.hidden_size), rank = static_cast<double>(config_.q_lora_rank);
  // Queries, weights of heads, and keys and gates of a compressor with overlap.
  const double parameters = heads * width * rank + hidden * heads + 2 * hidden * 2 * width;
  // Complete entries of 4 tokens: 1, 2, 3 for four queries each and 4 for three; 1 for two.
  const double scores = (4 * (1 + 2 + 3) + 3 * 4 + 2) * heads * width;
  EXPECT_DOUBLE_EQ(learning.forward[kAttention] - without.forward[kAttention],
                   2 * (2 * 23 * parameters + 2 * scores));
  EXPECT_DOUBLE_EQ(learning.backward[kAttention] - without.backward[kAttention],
                   2 * (2 * 23 * parameters + 4 * scores));
  EXPECT_DOUBLE_EQ(sum(learning.forward) - learning.forward[kAttention],
                   sum(without.forward) - without.forward[kAttention]);

  const PassFlops choosing = pass({.mtp_weight = 0});
  EXPECT_DOUBLE_EQ(choosing.forward[kAttention], learning.forward[kAttention]);
  EXPECT_DOUBLE_EQ(choosing.backward[kAttention], without.backward[kAttention]);
}

TEST_F(ModelFlopsTest, ABackwardIsTwiceTheForwardOfTheRest) {
  const PassFlops plain = pass({.mtp_weight = 0.3, .dense_attention = true});
  EXPECT_DOUBLE_EQ(sum(plain.backward), 2 * sum(plain.forward));
  const PassOptions alone{.dense_attention = true, .indexer_weight = 1, .indexers_alone = true};
  const PassFlops indexers = pass(alone);
  EXPECT_LT(sum(indexers.backward), sum(indexers.forward));
  EXPECT_DOUBLE_EQ(sum(indexers.backward), indexers.backward[kAttention]);
  EXPECT_DOUBLE_EQ(flops_.step(two_documents(), alone), sum(indexers.forward) + sum(indexers.backward));
}

}  // namespace
}  // namespace baleen
