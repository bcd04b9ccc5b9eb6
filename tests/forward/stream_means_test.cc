// Means of the streams after layers, as draft heads want them: those of what an observer of the blocks sees,
// in a pass with the same logits.

#include <gtest/gtest.h>

#include <vector>

#include "device/cpu_device.h"
#include "device/make_device.h"
#include "drafts/mtp/mtp_pass.h"
#include "forward/forward.h"
#include "kv_cache/sequence_pages.h"
#include "model/cache_geometry.h"
#include "model/presets.h"
#include "model_files/made_up.h"
#include "numeric/bf16.h"

namespace baleen {
namespace {

using Values = std::vector<std::vector<float>>;
constexpr std::int64_t kMaxRows = 256, kPromptTokens = 200;

/// Of streams [rows, n, d].
std::vector<float> mean(const std::vector<float>& streams, std::int64_t n, std::int64_t width) {
  std::vector<float> means;
  for (std::int64_t row = 0; row < kPromptTokens; ++row) {
    for (std::int64_t i = 0; i < width; ++i) {
      float sum = 0;
      for (std::int64_t s = 0; s < n; ++s)
        sum += streams[static_cast<std::size_t>((row * n + s) * width + i)];
      means.push_back(round_bf16(sum / static_cast<float>(n)));
    }
  }
  return means;
}

/// A prompt through all layers and the MTP block.
class PromptPass {
 public:
  PromptPass(const ModelConfig& config, const WeightTree& weights)
      : config_(config),
        weights_(weights),
        device_(1, scratch_bytes(cpu_traits(1), step_shape(config, kMaxRows, kMaxRows, 1, 1024))),
        cache_(cache_geometry(config, Precision::kReleased), {16, 16, 2}),
        arena_(forward_buffer_bytes(config, kMaxRows, ElementType::kF32)),
        forward_(config, weights, device_, cache_, Precision::kReleased, kMaxRows, arena_),
        pages_(cache_) {}

  Forward& forward() { return forward_; }

  void run() {
    std::vector<TokenId> tokens(kPromptTokens);
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<TokenId>((i * 37 + 11) % static_cast<std::size_t>(config_.vocab_size));
    ASSERT_TRUE(pages_.reach(kPromptTokens));
    const SequenceSlice slice{.first_row = 0,
                              .num_tokens = kPromptTokens,
                              .start = 0,
                              .pages = pages_.pages(),
                              .window_pages = pages_.window_pages(),
                              .state_slot = pages_.state_slot()};
    const RaggedBatch batch{.tokens = tokens, .slices = {&slice, 1}};
    const Activations<3> streams = forward_.run(batch);
    logits.resize(static_cast<std::size_t>(kPromptTokens * config_.vocab_size));
    const std::array<std::int64_t, 2> shape{kPromptTokens, config_.vocab_size};
    forward_.logits(streams, {}, {logits.data(), shape});
    draft_logits.resize(logits.size());
    const MtpPass pass(config_, weights_, device_, Precision::kReleased);
    pass.logits(forward_, forward_.run_drafts(batch, {}, pass.over(streams)), {draft_logits.data(), shape});
  }

  std::vector<float> logits, draft_logits;

 private:
  const ModelConfig& config_;
  const WeightTree& weights_;
  CpuDevice device_;
  KvCache cache_;
  Arena arena_;
  Forward forward_;
  SequencePages pages_;
};

class StreamMeansAfterLayers : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    config_ = preset_config(GetParam());
    ThreadPool pool(1);
    weights_ = made_up_weights(config_, 3, pool, MadeUpBytes::kOfEachTensor);
  }
  ModelConfig config_;
  std::unique_ptr<ModelWeights> weights_;
};

TEST_P(StreamMeansAfterLayers, AreOfWhatTheLayersLeft) {
  PromptPass plain(config_, weights_->tree()), observed(config_, weights_->tree()),
      leaving(config_, weights_->tree());
  Values want;
  observed.forward().observe_blocks(
      [](void* context, std::int64_t, ConstActivations<3> streams) {
        static_cast<Values*>(context)->emplace_back(streams.data(), streams.data() + streams.size());
      },
      &want);
  plain.run();
  observed.run();
  const std::int64_t last = config_.num_hidden_layers - 1;
  const std::int64_t width = config_.hidden_size;
  std::vector<float> left(static_cast<std::size_t>(kMaxRows * 2 * width));
  leaving.forward().leave_means(
      {.layers = {0, last}, .values = View<float, 2>(left.data(), {kMaxRows, 2 * width})});
  leaving.run();
  for (const std::int64_t place : {0, 1}) {
    const std::vector<float> wanted =
        mean(want[static_cast<std::size_t>(place == 0 ? 0 : last)], config_.hc_mult, width);
    std::vector<float> got;
    for (std::int64_t row = 0; row < kPromptTokens; ++row) {
      const auto begin = left.begin() + (row * 2 + place) * width;
      got.insert(got.end(), begin, begin + width);
    }
    EXPECT_EQ(got, wanted) << place;
  }
  EXPECT_EQ(leaving.logits, plain.logits);
  EXPECT_EQ(leaving.draft_logits, plain.draft_logits);
}

INSTANTIATE_TEST_SUITE_P(Presets, StreamMeansAfterLayers, testing::Values("tiny-flash", "tiny-real-heads"),
                         [](const auto& preset) {
                           std::string name = preset.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace baleen
