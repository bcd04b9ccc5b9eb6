// Every operation in `released` on what the NumPy forward pass fed to its own, and compared with what came
// out there. 280 tokens of two stories through models/stories; the rows are those of the last eight tokens
// unless said otherwise. (make_goldens.py wrote the arrays.)
//
// Both sides round where the released code rounds. They differ in the order of float32 sums, so now and then
// a value near the middle between two BF16 numbers goes to the other one, and what follows inherits that.
#include <gtest/gtest.h>

#include <cmath>

#include "device/cpu_device.h"
#include "model/weights.h"
#include "ops/operations.h"
#include "ops/rope/rope_frequencies.h"
#include "tests/support/cache_pages.h"
#include "tests/support/compare.h"
#include "tests/support/every_target.h"
#include "tests/support/golden_file.h"

namespace baleen {
namespace {

constexpr Precision kReleased = Precision::kReleased;

/// A BF16 step is 2^-7 of the value at most; a norm of 1e-4 lets about one element in a thousand take it.
constexpr test::Tolerance kBf16Step{.relative = 0x1p-7, .norm = 1e-4};
/// A cache row's first part is in e4m3, whose steps are 2^-3 of the value at most.
constexpr test::Tolerance kLatentStep{.relative = 0x1p-3, .norm = 2e-4};
/// An e2m1 step may be the whole value; a dozen of them in these keys.
constexpr test::Tolerance kIndexKeyStep{.norm = 1e-2};
/// The reciprocal root of a head's mean square is rounded to BF16 too: at the other number, the head is off
/// by 2^-8.
constexpr test::Tolerance kQueryStep{.norm = 1e-3};
/// Probabilities are rounded to BF16 after the maximum is taken off: here, as in the released kernel, that of
/// the list's blocks so far, in NumPy that of the whole list. That rounds them differently, by 2^-9 each.
constexpr test::Tolerance kAttention{.absolute = 0x1p-8, .relative = 0x1p-7, .norm = 1.5e-3};
/// Inner activations at the other BF16 number may move an e4m3 code in front of w2.
constexpr test::Tolerance kExperts{.norm = 1e-3};
/// float32 sums of a thousand terms or so.
constexpr test::Tolerance kFloat{.absolute = 1e-6, .relative = 1e-5};

/// Positions of the rows: the last eight, and with the window that these see.
constexpr std::int64_t kNumTokens = 280;
constexpr std::int64_t kNumLast = 8;
constexpr std::int64_t kFirstLast = kNumTokens - kNumLast;
constexpr std::int64_t kFirstSeen = kFirstLast - 127;

struct Array {
  std::vector<float> values;
  std::int64_t rows = 0, cols = 0;

  Array(std::int64_t num_rows, std::int64_t num_cols)
      : values(static_cast<std::size_t>(num_rows * num_cols), std::nanf("")),
        rows(num_rows),
        cols(num_cols) {}
  Array(std::vector<float> all, std::int64_t num_rows)
      : values(std::move(all)), rows(num_rows), cols(static_cast<std::int64_t>(values.size()) / num_rows) {}

  Activations<2> view() { return {values.data(), {rows, cols}}; }
  Activations<3> heads(std::int64_t num_heads) {
    return {values.data(), {rows, num_heads, cols / num_heads}};
  }
};

/// The reference kernels, and the SIMD ones on each instruction set of this machine.
constexpr std::int64_t kReferenceKernels = 0;

class Operations : public test::EveryTarget {
 protected:
  void SetUp() override {
    if (GetParam() != kReferenceKernels) EveryTarget::SetUp();
  }
  static void SetUpTestSuite() {
    weights_ = new ModelWeights("models/stories");
    golden_ = new test::GoldenFile("tests/forward/goldens/operations.safetensors");
  }
  static void TearDownTestSuite() {
    delete weights_;
    delete golden_;
  }

  const ModelConfig& config() const { return weights_->config(); }
  const BlockWeights& block(std::int64_t layer) const { return weights_->tree().block(layer); }
  float eps() const { return static_cast<float>(config().rms_norm_eps); }
  /// `golden` as rows.
  static Array array(const std::string& name) { return {golden_->floats(name), golden_->shape(name)[0]}; }
  static std::vector<float> floats(const std::string& name) { return golden_->floats(name); }
  static std::string name(std::int64_t layer, const std::string& rest) {
    return "layers." + std::to_string(layer) + "." + rest;
  }

  Array linear(const WeightMatrix& weight, Array x, bool keep_f32 = false) {
    Array y(x.rows, weight.rows);
    const LinearOutput output{&weight, y.view(), keep_f32};
    device_.execute<ops::Linear>({.x = x.view(), .outputs = {&output, 1}, .precision = kReleased});
    return y;
  }
  Array norm(Array x, std::span<const float> weight) {
    device_.execute<ops::RmsNorm>(
        {.x = x.view(), .weight = weight, .eps = eps(), .precision = kReleased, .y = x.view()});
    return x;
  }

  std::vector<float> frequencies(std::int64_t layer) const {
    const YarnParams yarn;
    return config().compress_ratio(layer) == 0 ? rope_frequencies(10000.0F, 64, nullptr)
                                               : rope_frequencies(160000.0F, 64, &yarn);
  }
  /// Rotation of positions [first, first + count) in `layer`.
  struct Angles {
    Array cosine, sine;
  };
  Angles angles(std::int64_t layer, std::int64_t first, std::int64_t count) const {
    Angles all{{count, 32}, {count, 32}};
    for (std::int64_t i = 0; i < count; ++i) {
      rope_angles(frequencies(layer), first + i, all.cosine.view().row(i), all.sine.view().row(i));
    }
    return all;
  }
  Array rotate(Array x, std::int64_t layer, bool inverse) {
    Angles at = angles(layer, kFirstLast, x.rows);
    device_.execute<ops::Rope>({.x = x.heads(config().num_attention_heads),
                                .cosine = at.cosine.view(),
                                .sine = at.sine.view(),
                                .inverse = inverse,
                                .precision = kReleased});
    return x;
  }

  LatentFormat latent_format() const {
    return {static_cast<int>(config().nope_dim()), static_cast<int>(config().qk_rope_head_dim), kReleased};
  }
  /// Positions [start, start + count) of the sequence.
  SequenceSlice slice(std::int64_t start, std::int64_t count) const {
    return {.first_row = 0,
            .num_tokens = count,
            .start = start,
            .pages = pages_,
            .window_pages = pages_,
            .state_slot = 0};
  }

  static ModelWeights* weights_;
  static test::GoldenFile* golden_;
  CpuDevice device_{2, 64 << 20,
                    GetParam() == kReferenceKernels ? std::vector<ForcedVariant>{{"", "reference"}}
                                                    : std::vector<ForcedVariant>{}};
  const std::vector<PageId> pages_{PageId{1}, PageId{0}};
};

ModelWeights* Operations::weights_ = nullptr;
test::GoldenFile* Operations::golden_ = nullptr;

TEST_P(Operations, HyperConnectionEntry) {
  Array streams = array("layers.1.hc_attn.x"), u(kNumLast, config().hidden_size),
        post(kNumLast, config().hc_mult);
  Array comb(kNumLast, config().hc_mult * config().hc_mult);
  device_.execute<ops::HcPre>({.streams = streams.heads(config().hc_mult),
                               .weights = block(1).hc_attn,
                               .norm_eps = eps(),
                               .hc_eps = static_cast<float>(config().hc_eps),
                               .sinkhorn_iterations = static_cast<int>(config().hc_sinkhorn_iters),
                               .precision = kReleased,
                               .u = u.view(),
                               .post = post.view(),
                               .comb = comb.heads(config().hc_mult)});
  EXPECT_CLOSE(u.values, floats("layers.1.hc_attn.u"), kBf16Step);
  EXPECT_CLOSE(post.values, floats("layers.1.hc_attn.post"), kFloat);
  EXPECT_CLOSE(comb.values, floats("layers.1.hc_attn.comb"), kFloat);
}

TEST_P(Operations, HyperConnectionExit) {
  Array streams = array("layers.1.hc_attn.x"), f = array("layers.1.hc_attn.f"),
        post = array("layers.1.hc_attn.post");
  Array comb = array("layers.1.hc_attn.comb");
  device_.execute<ops::HcPost>({.f = f.view(),
                                .post = post.view(),
                                .comb = comb.heads(config().hc_mult),
                                .precision = kReleased,
                                .streams = streams.heads(config().hc_mult)});
  EXPECT_CLOSE(streams.values, floats("layers.1.hc_attn.out"), kBf16Step);
}

TEST_P(Operations, HyperConnectionHeadAndLogits) {
  Array streams = array("hc_head.x"), y(kNumLast, config().hidden_size);
  device_.execute<ops::HcHead>({.streams = streams.heads(config().hc_mult),
                                .weights = weights_->tree().hc_head,
                                .norm_eps = eps(),
                                .hc_eps = static_cast<float>(config().hc_eps),
                                .precision = kReleased,
                                .y = y.view()});
  EXPECT_CLOSE(y.values, floats("hc_head.y"), kBf16Step);
  EXPECT_CLOSE(norm(array("hc_head.y"), weights_->tree().norm).values, floats("norm.y"), kBf16Step);

  Array normed = array("norm.y"), logits(2, config().vocab_size);
  device_.execute<ops::LmHead>({.x = normed.view().slice(kNumLast - 2, kNumLast),
                                .weight = &weights_->tree().head,
                                .logits = logits.view()});
  EXPECT_CLOSE(logits.values, floats("logits"), {.absolute = 2e-5, .relative = 1e-5});
}

TEST_P(Operations, Norm) {
  EXPECT_CLOSE(norm(array("layers.1.attn_norm.x"), block(1).attn_norm).values, floats("layers.1.attn_norm.y"),
               kBf16Step);
}

TEST_P(Operations, LinearOfEveryFormat) {
  const AttentionWeights& attention = block(1).attention;
  ASSERT_EQ(attention.wq_a.format, WeightFormat::kFp8);
  EXPECT_CLOSE(linear(attention.wq_a, array("layers.1.attn_norm.y")).values, floats("layers.1.attn.wq_a.y"),
               kBf16Step);
  EXPECT_CLOSE(linear(attention.wq_b, array("layers.1.attn.wq_b.x")).values, floats("layers.1.attn.wq_b.y"),
               kBf16Step);
  EXPECT_CLOSE(linear(attention.wo_b, array("layers.1.attn.wo_b.x")).values, floats("layers.1.attn.wo_b.y"),
               kBf16Step);
  ASSERT_EQ(attention.indexer.weights_proj.format, WeightFormat::kBF16);
  EXPECT_CLOSE(linear(attention.indexer.weights_proj, array("layers.1.attn_norm.y")).values,
               floats("layers.1.attn.indexer.weights_proj.y"), kBf16Step);
  const ExpertWeights& expert = block(1).moe.routed[static_cast<std::size_t>(golden_->scalar("expert.id"))];
  ASSERT_EQ(expert.w1.format, WeightFormat::kFp4);
  EXPECT_CLOSE(linear(expert.w1, array("expert.w1.x")).values, floats("expert.w1.y"), kBf16Step);
  EXPECT_CLOSE(linear(expert.w2, array("expert.w2.x")).values, floats("expert.w2.y"), kBf16Step);
}

TEST_P(Operations, Queries) {
  Array q = array("layers.1.attn.wq_b.y");
  const std::int64_t num_heads = config().num_attention_heads;
  Array per_head(q.values, q.rows * num_heads);
  q = rotate(Array(norm(per_head, {}).values, q.rows), 1, /*inverse=*/false);
  EXPECT_CLOSE(q.values, floats("layers.1.attn.q"), kQueryStep);
}

TEST_P(Operations, WindowRows) {
  for (const std::int64_t layer : {0, 1, 2}) {
    Array kv = array(name(layer, "attn.wkv.y"));
    Angles at = angles(layer, kFirstSeen, kv.rows);
    const test::LatentPages window(latent_format(), 256, 2);
    const SequenceSlice rows = slice(kFirstSeen, kv.rows);
    const std::vector<TokenId> tokens(static_cast<std::size_t>(kv.rows));
    device_.execute<ops::KvStore>({.kv = kv.view(),
                                   .weight = block(layer).attention.kv_norm,
                                   .eps = eps(),
                                   .cosine = at.cosine.view(),
                                   .sine = at.sine.view(),
                                   .batch = {tokens, {&rows, 1}},
                                   .window = window.pool()});
    std::vector<float> stored;
    for (std::int64_t p = kFirstSeen; p < kNumTokens; ++p) {
      const std::vector<float> row = test::read_row(window.pool(), pages_, p);
      stored.insert(stored.end(), row.begin(), row.end());
    }
    EXPECT_CLOSE(stored, floats(name(layer, "attn.kv")), kLatentStep) << "layer " << layer;
  }
}

TEST_P(Operations, CompressedEntries) {
  const auto entries = [&](std::int64_t layer, const CompressorWeights& compressor, const auto& pages) {
    Array x = array(name(layer, "attn.x"));
    Array kv = linear(compressor.wkv, x, true), gate = linear(compressor.wgate, x, true);
    const auto ratio = static_cast<int>(config().compress_ratio(layer));
    const std::int64_t ring_rows = ratio == 4 ? 8 : 128;
    std::vector<float> ring(static_cast<std::size_t>(2 * ring_rows * kv.cols));
    const SequenceSlice rows = slice(0, kNumTokens);
    const std::vector<TokenId> tokens(static_cast<std::size_t>(kNumTokens));
    const std::vector<float> turns = frequencies(layer);
    CompressorArgs args{.kv = kv.view(),
                        .gate = gate.view(),
                        .ape = compressor.ape,
                        .norm_weight = compressor.norm,
                        .eps = eps(),
                        .frequencies = turns,
                        .ratio = ratio,
                        .precision = kReleased,
                        .batch = {tokens, {&rows, 1}},
                        .state = {ring.data(), 0, ring_rows, kv.cols}};
    if constexpr (std::is_same_v<decltype(pages.pool()), const LatentPool&>) {
      args.latent = pages.pool();
    } else {
      args.index_key = pages.pool();
    }
    device_.execute<ops::Compressor>(args);
    std::vector<float> stored;
    for (std::int64_t j = 0; j < kNumTokens / ratio; ++j) {
      const std::vector<float> row = test::read_row(pages.pool(), pages_, j);
      stored.insert(stored.end(), row.begin(), row.end());
    }
    return stored;
  };
  const AttentionWeights& csa = block(1).attention;
  EXPECT_CLOSE(entries(1, csa.compressor, test::LatentPages(latent_format(), 64, 2)),
               floats("layers.1.attn.compressed_kv"), kLatentStep);
  EXPECT_CLOSE(entries(2, block(2).attention.compressor, test::LatentPages(latent_format(), 2, 2)),
               floats("layers.2.attn.compressed_kv"), kLatentStep);
  EXPECT_CLOSE(entries(1, csa.indexer.compressor, test::IndexKeyPages({128, kReleased}, 64, 2)),
               floats("layers.1.attn.indexer.keys"), kIndexKeyStep);
}

TEST_P(Operations, IndexerRanksEntries) {
  Array q = array("layers.1.attn.indexer.wq_b.y"),
        head_weights = array("layers.1.attn.indexer.weights_proj.y");
  Array keys = array("layers.1.attn.indexer.keys"), scores = array("layers.1.attn.indexer.scores");
  const test::IndexKeyPages pages({128, kReleased}, 64, 2);
  for (std::int64_t j = 0; j < keys.rows; ++j) test::write_row(pages.pool(), pages_, j, keys.view().row(j));
  Angles at = angles(1, kFirstLast, kNumLast);
  const SequenceSlice rows = slice(kFirstLast, kNumLast);
  const std::vector<TokenId> tokens(static_cast<std::size_t>(kNumLast));
  for (const std::int64_t top_k : {1, 4, 16, 64}) {
    std::vector<std::int32_t> selected(static_cast<std::size_t>(kNumLast * top_k));
    device_.execute<ops::Indexer>({.q = q.heads(config().index_n_heads),
                                   .head_weights = head_weights.view(),
                                   .cosine = at.cosine.view(),
                                   .sine = at.sine.view(),
                                   .precision = kReleased,
                                   .batch = {tokens, {&rows, 1}},
                                   .keys = pages.pool(),
                                   .selected = {selected.data(), {kNumLast, top_k}}});
    for (std::int64_t t = 0; t < kNumLast; ++t) {
      const auto row = scores.view().row(t);
      std::vector<float> best(row.begin(), row.end());
      std::ranges::sort(best, std::greater<>());
      const float least = best[static_cast<std::size_t>(top_k - 1)];
      for (std::int64_t k = 0; k < top_k; ++k) {
        const auto j = static_cast<std::size_t>(selected[static_cast<std::size_t>(t * top_k + k)]);
        ASSERT_LT(j, row.size());
        // Entries whose scores differ by float32 rounding may change places.
        EXPECT_GE(row[j], least - 1e-5F * std::fabs(least))
            << "row " << t << ", entry " << j << ", top " << top_k;
      }
    }
  }
}

TEST_P(Operations, AttentionOfEveryKind) {
  for (const std::int64_t layer : {0, 1, 2}) {
    const auto ratio = static_cast<int>(config().compress_ratio(layer));
    const test::LatentPages window(latent_format(), 256, 2);
    Array kv = array(name(layer, "attn.kv"));
    for (std::int64_t i = 0; i < kv.rows; ++i)
      test::write_row(window.pool(), pages_, kFirstSeen + i, kv.view().row(i));
    const test::LatentPages compressed(latent_format(), ratio == 0 ? 1 : 256 / ratio, 2);
    if (ratio != 0) {
      Array entries = array(name(layer, "attn.compressed_kv"));
      for (std::int64_t j = 0; j < entries.rows; ++j) {
        test::write_row(compressed.pool(), pages_, j, entries.view().row(j));
      }
    }
    std::vector<std::int32_t> selected = golden_->ints("layers.1.attn.indexer.selected");
    Array q = array(name(layer, "attn.q")), out(kNumLast, config().q_dim());
    const SequenceSlice rows = slice(kFirstLast, kNumLast);
    const std::vector<TokenId> tokens(static_cast<std::size_t>(kNumLast));
    device_.execute<ops::SparseAttention>(
        {.q = q.heads(config().num_attention_heads),
         .batch = {tokens, {&rows, 1}},
         .window = window.pool(),
         .compressed = ratio == 0 ? LatentPool{} : compressed.pool(),
         .ratio = ratio,
         .selected = ratio == 4
                         ? View<const std::int32_t, 2>(selected.data(), {kNumLast, config().index_topk})
                         : View<const std::int32_t, 2>(),
         .sink = block(layer).attention.sink,
         .window_tokens = config().sliding_window,
         .scale = 1.0F / std::sqrt(static_cast<float>(config().head_dim)),
         .precision = kReleased,
         .out = out.heads(config().num_attention_heads)});
    EXPECT_CLOSE(out.values, floats(name(layer, "attn.core")), kAttention) << "layer " << layer;
  }
}

TEST_P(Operations, GroupedOutputProjection) {
  Array attended = rotate(array("layers.1.attn.core"), 1, /*inverse=*/true);
  Array grouped(kNumLast, config().o_dim());
  device_.execute<ops::GroupedLinear>({.x = attended.heads(config().o_groups),
                                       .weight = &block(1).attention.wo_a,
                                       .y = grouped.view(),
                                       .precision = kReleased});
  EXPECT_CLOSE(grouped.values, floats("layers.1.attn.wo_b.x"), kBf16Step);
}

TEST_P(Operations, RoutesByScoreAndByTable) {
  const std::vector<TokenId> all = golden_->ints("tokens");
  for (const std::int64_t layer : {0, 1}) {
    const MoeWeights& moe = block(layer).moe;
    Array logits = linear(moe.gate, array(name(layer, "ffn.x")), true);
    Array weights(kNumLast, config().num_experts_per_tok);
    std::vector<std::int32_t> ids(weights.values.size());
    device_.execute<ops::Route>({.logits = logits.view(),
                                 .scale = static_cast<float>(config().routed_scaling_factor),
                                 .bias = moe.bias,
                                 .hash_table = moe.hash_table,
                                 .tokens = std::span(all).last(kNumLast),
                                 .ids = {ids.data(), {kNumLast, config().num_experts_per_tok}},
                                 .weights = weights.view()});
    EXPECT_EQ(ids, golden_->ints(name(layer, "ffn.ids"))) << "layer " << layer;
    EXPECT_CLOSE(weights.values, floats(name(layer, "ffn.weights")), kFloat) << "layer " << layer;
  }
}

TEST_P(Operations, Experts) {
  Array x = array("layers.1.ffn.x"), weights = array("layers.1.ffn.weights"),
        out(kNumLast, config().hidden_size);
  const std::vector<std::int32_t> ids = golden_->ints("layers.1.ffn.ids");
  const MoeWeights& moe = block(1).moe;
  device_.execute<ops::Experts>({.x = x.view(),
                                 .ids = {ids.data(), {kNumLast, config().num_experts_per_tok}},
                                 .weights = weights.view(),
                                 .routed = moe.routed,
                                 .shared = &moe.shared,
                                 .swiglu_limit = static_cast<float>(config().swiglu_limit),
                                 .precision = kReleased,
                                 .out = out.view()});
  EXPECT_CLOSE(out.values, floats("layers.1.ffn.y"), kExperts);
}

TEST_P(Operations, MtpInput) {
  Array embedded = array("mtp.0.e_proj.y"), streams = array("mtp.0.h_proj.y");
  device_.execute<ops::MtpCombine>(
      {.embedded = embedded.view(), .precision = kReleased, .streams = streams.heads(config().hc_mult)});
  EXPECT_SAME_BITS(streams.values, floats("mtp.0.hc_attn.x"));  // one sum, one rounding
}

std::vector<std::int64_t> variants() {
  std::vector<std::int64_t> all = test::compiled_targets();
  all.push_back(kReferenceKernels);
  return all;
}

INSTANTIATE_TEST_SUITE_P(EveryVariant, Operations, testing::ValuesIn(variants()), [](const auto& tested) {
  return tested.param == kReferenceKernels ? std::string("reference") : test::target_name(tested);
});

}  // namespace
}  // namespace baleen
