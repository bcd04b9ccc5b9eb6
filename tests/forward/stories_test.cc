// The bundled model as it is released: how well it predicts stories that it never saw, against the NumPy
// forward pass.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "sampling/softmax_weights.h"
#include "tests/support/run_sequence.h"
#include "tests/support/test_device.h"

namespace baleen {
namespace {

double negative_log_likelihood(std::span<const TokenId> tokens, std::span<const float> logits) {
  const std::size_t width = logits.size() / tokens.size();
  double sum = 0;
  for (std::size_t t = 0; t + 1 < tokens.size(); ++t) {
    const auto row = logits.subspan(t * width, width);
    sum += log_sum_exp(row, logit_extremes(row).max) - row[static_cast<std::size_t>(tokens[t + 1])];
  }
  return sum;
}

TEST(Stories, NegativeLogLikelihoodIsThatOfTheReferenceForwardPass) {
  const auto stories = nlohmann::json::parse(read_text_file("tests/forward/goldens/stories_nll.json"));
  ASSERT_EQ(stories.size(), 20u);
  Engine engine("models/stories", {.device = test::device(),
                                   .num_threads = 2,
                                   .max_batch_tokens = 512,
                                   .max_logit_rows = 512,
                                   .cache_tokens = 1024});
  double ours = 0, reference = 0;
  std::size_t num_predicted = 0;
  for (const auto& story : stories) {
    const auto tokens = story["ids"].get<std::vector<TokenId>>();
    const double sum = negative_log_likelihood(tokens, test::run_sequence(engine, tokens, 512).main);
    // Roundings that fall the other way move a token's probability by a percent or so, either way.
    EXPECT_NEAR(sum, story["nll"].get<double>(), 0.02 * story["nll"].get<double>());
    ours += sum;
    reference += story["nll"].get<double>();
    num_predicted += tokens.size() - 1;
  }
  EXPECT_NEAR(ours / reference, 1.0, 0.005);
  RecordProperty("nats_per_token", std::to_string(ours / static_cast<double>(num_predicted)));
  RecordProperty("ratio_to_reference", std::to_string(ours / reference));
}

}  // namespace
}  // namespace baleen
