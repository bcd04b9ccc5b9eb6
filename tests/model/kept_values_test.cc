// A pass that keeps every block's values for a backward pass: the bits of one that does not, and in the end
// each block's values as they were when it had run.

#include <gtest/gtest.h>

#include <vector>

#include "device/cpu_device.h"
#include "device/make_device.h"
#include "drafts/mtp/mtp_pass.h"
#include "kv_cache/sequence_pages.h"
#include "model/forward.h"
#include "model/presets.h"
#include "model_files/made_up.h"

namespace baleen {
namespace {

using Values = std::vector<std::vector<float>>;
constexpr std::int64_t kMaxRows = 256, kPromptTokens = 200;

std::vector<float> copied(const Activations<2>& x) {
  const Activations<2> used = rows(x, kPromptTokens);
  return {used.data(), used.data() + used.size()};
}
std::vector<float> copied(const View<std::int32_t, 2>& x) {
  const std::int32_t* begin = x.data();
  return {begin, begin + kPromptTokens * x.extent(1)};
}
std::vector<float> copied(const Activations<3>& x) {
  return {x.data(), x.data() + kPromptTokens * x.extent(1) * x.extent(2)};
}

/// What is there when a block has run, whether values are kept or not.
Values of_block(const BlockValues& b, const LayerAttention& shape, const BlockWeights& weights) {
  Values values{copied(b.q_latent),     copied(b.q),
                copied(b.kv),           copied(b.attended),
                copied(b.grouped),      copied(b.router_logits),
                copied(b.expert_ids),   copied(b.expert_weights),
                copied(b.experts.u),    copied(b.experts.f),
                copied(b.experts.post), copied(b.experts.comb)};
  if (shape.compresses()) {
    // Dense rows of the compressor's own width, which is smaller without overlap.
    const std::int64_t width = weights.attention.compressor.wkv.rows;
    for (const auto& x : {b.main_kv, b.main_gate}) values.push_back(copied(rows(x, kPromptTokens, width)));
  }
  if (shape.indexed) {
    for (const auto& x : {b.index_kv, b.index_gate, b.index_q, b.index_weights}) values.push_back(copied(x));
    values.push_back(copied(b.selected));
  }
  return values;
}

/// A prompt through all layers and the MTP block.
class Pass {
 public:
  Pass(const ModelConfig& config, const WeightTree& weights, Lifetime lifetime)
      : config_(config),
        weights_(weights),
        device_(1, scratch_bytes(cpu_traits(1), step_shape(config, kMaxRows, kMaxRows, 1, 1024))),
        cache_(cache_geometry(config, Precision::kReleased), {16, 16, 2}),
        arena_(forward_buffer_bytes(config, kMaxRows, ElementType::kF32, lifetime)),
        forward_(config, weights, device_, cache_, Precision::kReleased, kMaxRows, arena_, {}, lifetime),
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
    forward_.logits(streams, {logits.data(), shape});
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

class KeptValues : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    config_ = preset_config(GetParam());
    ThreadPool pool(1);
    weights_ = made_up_weights(config_, 3, pool, MadeUpBytes::kOfEachTensor);
  }
  ModelConfig config_;
  std::unique_ptr<ModelWeights> weights_;
};

/// Taken after each block of a pass that keeps nothing.
struct Taken {
  const Forward* forward;
  const ModelConfig* config;
  const WeightTree* weights;
  std::vector<Values> blocks;
  Values streams;
};

TEST_P(KeptValues, AreWhatEachBlockLeft) {
  Pass shared(config_, weights_->tree(), Lifetime::kBlock);
  Taken taken{&shared.forward(), &config_, &weights_->tree(), {}, {}};
  shared.forward().observe_blocks(
      [](void* context, std::int64_t block, ConstActivations<3> streams) {
        Taken& to = *static_cast<Taken*>(context);
        to.blocks.push_back(of_block(to.forward->values().block(block), to.config->attention(block),
                                     to.weights->block(block)));
        to.streams.emplace_back(streams.data(), streams.data() + streams.size());
      },
      &taken);
  shared.run();

  Pass keeping(config_, weights_->tree(), Lifetime::kPass);
  keeping.run();
  EXPECT_EQ(keeping.logits, shared.logits);
  EXPECT_EQ(keeping.draft_logits, shared.draft_logits);
  ASSERT_EQ(std::ssize(taken.blocks), config_.num_blocks());
  for (std::int64_t block = 0; block < config_.num_blocks(); ++block) {
    const BlockValues& values = keeping.forward().values().block(block);
    const auto at = static_cast<std::size_t>(block);
    EXPECT_EQ(of_block(values, config_.attention(block), weights_->tree().block(block)), taken.blocks[at])
        << "block " << block;
    if (block > 0 && block < config_.num_hidden_layers) {
      EXPECT_EQ(copied(values.attention.streams), taken.streams[at - 1]) << "block " << block;
    }
  }
}

TEST_P(KeptValues, StreamsAfterALayerAreCopiedForWhoAsks) {
  Pass plain(config_, weights_->tree(), Lifetime::kBlock),
      observed(config_, weights_->tree(), Lifetime::kBlock),
      copying(config_, weights_->tree(), Lifetime::kBlock);
  Values want;
  observed.forward().observe_blocks(
      [](void* context, std::int64_t, ConstActivations<3> streams) {
        static_cast<Values*>(context)->emplace_back(streams.data(), streams.data() + streams.size());
      },
      &want);
  plain.run();
  observed.run();
  const std::int64_t last = config_.num_hidden_layers - 1;
  std::vector<std::vector<float>> copies(
      2, std::vector<float>(static_cast<std::size_t>(kMaxRows * config_.hc_dim())));
  const auto view = [&](std::vector<float>& copy) {
    return Activations<3>(View<float, 3>(copy.data(), {kMaxRows, config_.hc_mult, config_.hidden_size}));
  };
  copying.forward().copy_streams_after(0, view(copies[0]));
  copying.forward().copy_streams_after(last, view(copies[1]));
  copying.run();
  EXPECT_EQ(copied(view(copies[0])), want[0]);
  EXPECT_EQ(copied(view(copies[1])), want[static_cast<std::size_t>(last)]);
  EXPECT_EQ(copying.logits, plain.logits);
  EXPECT_EQ(copying.draft_logits, plain.draft_logits);
}

/// What operations change in place elsewhere is there as it was before: operations give what follows again.
TEST_P(KeptValues, HaveTheInputsOfEachOperation) {
  Pass keeping(config_, weights_->tree(), Lifetime::kPass);
  keeping.run();
  const auto eps = static_cast<float>(config_.rms_norm_eps);
  for (std::int64_t block = 0; block < config_.num_blocks(); ++block) {
    SCOPED_TRACE(block);
    const BlockValues& values = keeping.forward().values().block(block);
    const BlockWeights& weights = weights_->tree().block(block);
    const auto normed = [&](const Activations<2>& x, std::span<const float> weight) {
      std::vector<float> y(static_cast<std::size_t>(kPromptTokens * x.extent(1)));
      rms_norm_ref({.x = rows(x, kPromptTokens),
                    .weight = weight,
                    .eps = eps,
                    .precision = Precision::kReleased,
                    .y = {y.data(), {kPromptTokens, x.extent(1)}}});
      return y;
    };
    const auto expect_close = [](const std::vector<float>& got, const std::vector<float>& wanted) {
      ASSERT_EQ(got.size(), wanted.size());
      // One step of BF16: the reference adds up in another order before it rounds.
      for (std::size_t i = 0; i < got.size(); ++i)
        ASSERT_NEAR(got[i], wanted[i], 0x1p-7F * std::abs(wanted[i]) + 1e-6F) << i;
    };
    expect_close(copied(values.attention.u), normed(values.attention.entered, weights.attn_norm));
    expect_close(copied(values.experts.u), normed(values.experts.entered, weights.ffn_norm));
    expect_close(copied(values.q_latent), normed(values.q_down, weights.attention.q_norm));
    for (const auto& [half, hc] :
         {std::pair(&values.attention, &weights.hc_attn), std::pair(&values.experts, &weights.hc_ffn)}) {
      const std::int64_t n = config_.hc_mult;
      std::vector<float> u(static_cast<std::size_t>(kPromptTokens * config_.hidden_size));
      std::vector<float> post(static_cast<std::size_t>(kPromptTokens * n)), comb(post.size() * 4);
      ASSERT_EQ(n, 4);
      hc_pre_ref({.streams = rows(half->streams, kPromptTokens),
                  .weights = *hc,
                  .norm_eps = eps,
                  .hc_eps = static_cast<float>(config_.hc_eps),
                  .sinkhorn_iterations = static_cast<int>(config_.hc_sinkhorn_iters),
                  .precision = Precision::kReleased,
                  .u = {u.data(), {kPromptTokens, config_.hidden_size}},
                  .post = {post.data(), {kPromptTokens, n}},
                  .comb = {comb.data(), {kPromptTokens, n, n}}});
      expect_close(copied(half->entered), u);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Presets, KeptValues, testing::Values("tiny-flash", "tiny-real-heads"),
                         [](const auto& preset) {
                           std::string name = preset.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace baleen
