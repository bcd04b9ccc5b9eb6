// The operations of V4.1's attention in `released` on what the NumPy forward pass fed to its own, against
// what came out there: 27 tokens through a layer of ratio 2, one of ratio 1 that chooses blocks, and one that
// selects among them by the keys of the one before. (make_csa2_golden.py wrote the arrays.)
//
// Both sides round where the released code rounds, and differ in the order of float32 sums: now and then a
// value near the middle between two numbers goes to the other one.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "ops/entry_store/entry_store.h"
#include "ops/indexer/indexer.h"
#include "ops/kv_store/kv_store.h"
#include "ops/latent/latent.h"
#include "ops/rope/rope.h"
#include "ops/sparse_attention/sparse_attention.h"
#include "tests/support/cache_pages.h"
#include "tests/support/compare.h"
#include "tests/support/golden_file.h"
#include "tests/support/test_cpu.h"

namespace baleen {
namespace {

constexpr std::int64_t kTokens = 27, kWidth = 512, kRope = 64, kHeads = 2;
constexpr std::int64_t kIndexHeads = 8, kKeyDim = 128, kTopK = 6;
constexpr std::int64_t kBlocks = 3, kBlockSize = 4;
constexpr float kEps = 1e-20F;

/// A BF16 step is 2^-7 of the value at most; a norm of 1e-4 lets about one element in a thousand take it.
/// Rounded behind a norm instead of before it, every other element would.
constexpr test::Tolerance kBf16Step{.relative = 0x1p-7, .norm = 1e-4};
/// Codes of 8 and of 4 bits, a few of which are neighbours.
constexpr test::Tolerance kWindowStep{.relative = 0x1p-3, .norm = 3e-4};
constexpr test::Tolerance kCodeStep{.norm = 3e-3};
/// Probabilities are rounded to BF16 behind another maximum (operations_test.cc).
constexpr test::Tolerance kAttention{.norm = 1.5e-3};

using Values = std::vector<float>;

class Csa2 : public testing::TestWithParam<test::Kernels> {
 protected:
  static Values floats(const std::string& name) { return golden().floats(name); }
  static std::vector<std::int32_t> ints(const std::string& name) { return golden().ints(name); }

  /// The step of all tokens, or `count` from `start` on.
  SequenceSlice slice(std::int64_t start = 0, std::int64_t count = kTokens) const {
    return {0, count, start, pages_, pages_, 0};
  }
  static Values frequencies() {
    const YarnParams yarn;
    return rope_frequencies(160000.0F, kRope, &yarn);
  }
  struct Angles {
    Values cosine = Values(kTokens * kRope / 2), sine = cosine;
    Angles() {
      for (std::size_t t = 0; t < kTokens; ++t) {
        rope_angles(frequencies(), static_cast<std::int64_t>(t), row(cosine, t), row(sine, t));
      }
    }
    static std::span<float> row(Values& all, std::size_t t) {
      return std::span(all).subspan(t * kRope / 2, kRope / 2);
    }
    [[nodiscard]] ConstActivations<2> of(const Values& all) const {
      return {all.data(), {kTokens, kRope / 2}};
    }
  };
  template <class Op>
  void run(const typename Op::Args& args) {
    test::TestCpu cpu(2, 1 << 22, GetParam());
    cpu.run<Op>(args);
  }
  static LatentFormat format(GroupedCodes codes) {
    return {.nope = kWidth - kRope, .rope = kRope, .grouped = GroupedRow{.codes = codes, .width = kWidth}};
  }

  Values latents(int layer, const std::vector<std::int64_t>& pieces) {
    const int ratio = layer == 1 ? 2 : 1;
    const Values kv = floats(name(layer, "latent_kv")), norm = floats(name(layer, "latent_norm"));
    const Values gate = ratio == 2 ? floats("1.latent_gate") : Values();
    Values ring(2 * 2 * kWidth, std::nanf("")), out(kv.size());
    for (std::int64_t begin = 0, i = 0; begin < kTokens; ++i) {
      const std::int64_t count =
          std::min(pieces[static_cast<std::size_t>(i) % pieces.size()], kTokens - begin);
      const SequenceSlice piece = slice(begin, count);
      const std::vector<TokenId> tokens(static_cast<std::size_t>(count));
      LatentArgs args{.kv = {kv.data() + begin * kWidth, {count, kWidth}},
                      .norm_weight = norm,
                      .eps = kEps,
                      .ratio = ratio,
                      .batch = {tokens, {&piece, 1}},
                      .latent = {out.data() + begin * kWidth, {count, kWidth}}};
      if (ratio == 2) {
        args.gate = {gate.data() + begin * kWidth, {count, kWidth}};
        args.state = {ring.data(), 2 * 2 * kWidth, 2, kWidth};
      }
      run<ops::Latent>(args);
      begin += count;
    }
    return out;
  }
  static std::string name(int layer, const std::string& what) { return std::to_string(layer) + "." + what; }

  std::vector<PageId> pages_{PageId{0}};
  std::vector<TokenId> tokens_ = std::vector<TokenId>(kTokens);

 private:
  static const test::GoldenFile& golden() {
    static const test::GoldenFile file("tests/ops/csa2/csa2_golden.safetensors");
    return file;
  }
};

TEST_P(Csa2, WindowRows) {
  const Angles angles;
  for (const int layer : {1, 3}) {
    const Values kv = floats(name(layer, "kv")), weight = floats(name(layer, "kv_norm"));
    test::LatentPages window(format(GroupedCodes::kFp8), 256, 1);
    const SequenceSlice all = slice();
    run<ops::KvStore>({.kv = {kv.data(), {kTokens, kWidth}},
                       .weight = weight,
                       .eps = kEps,
                       .cosine = angles.of(angles.cosine),
                       .sine = angles.of(angles.sine),
                       .batch = {tokens_, {&all, 1}},
                       .window = window.pool()});
    Values got;
    for (std::int64_t t = 0; t < kTokens; ++t) {
      const Values row = test::read_row(window.pool(), pages_, t);
      got.insert(got.end(), row.begin(), row.end());
    }
    EXPECT_CLOSE(got, floats(name(layer, "window")), kWindowStep);
  }
}

TEST_P(Csa2, Latents) {
  for (const int layer : {1, 2}) {
    const std::size_t ratio = layer == 1 ? 2 : 1;
    const Values got = latents(layer, {kTokens});
    Values of_entries;
    for (std::size_t t = ratio - 1; t < kTokens; t += ratio)
      of_entries.insert(of_entries.end(), got.begin() + static_cast<std::ptrdiff_t>(t * kWidth),
                        got.begin() + static_cast<std::ptrdiff_t>((t + 1) * kWidth));
    EXPECT_CLOSE(of_entries, floats(name(layer, "latent")), kBf16Step);
    EXPECT_SAME_BITS(latents(layer, {9, 1, 4, 3}), got);
    EXPECT_SAME_BITS(latents(layer, {1}), got);
  }
}

TEST_P(Csa2, EntriesAndIndexKeys) {
  for (const int layer : {1, 2}) {
    const int ratio = layer == 1 ? 2 : 1;
    const std::int64_t num_entries = kTokens / ratio;
    // From one row an entry to the rows of the positions that complete them.
    const auto spread = [&](const std::string& what, std::int64_t width) {
      const Values of_entries = floats(name(layer, what));
      Values rows(static_cast<std::size_t>(kTokens * width), std::nanf(""));
      for (std::int64_t j = 0; j < num_entries; ++j)
        std::copy_n(of_entries.begin() + j * width, width, rows.begin() + (ratio * (j + 1) - 1) * width);
      return rows;
    };
    const Values latent = spread("latent", kWidth), key = spread("key", kKeyDim);
    const Values key_norm = floats(name(layer, "key_norm")), of_layer = frequencies();
    test::LatentPages entries(format(GroupedCodes::kFp4), 256 / ratio, 1);
    test::IndexKeyPages keys({kKeyDim, Precision::kReleased}, 256 / ratio, 1);
    const SequenceSlice all = slice();
    run<ops::EntryStore>({.latent = {latent.data(), {kTokens, kWidth}},
                          .key = {key.data(), {kTokens, kKeyDim}},
                          .key_norm = key_norm,
                          .eps = kEps,
                          .frequencies = of_layer,
                          .ratio = ratio,
                          .batch = {tokens_, {&all, 1}},
                          .entries = entries.pool(),
                          .index_keys = keys.pool()});
    Values got, got_keys;
    for (std::int64_t j = 0; j < num_entries; ++j) {
      const Values row = test::read_row(entries.pool(), pages_, j),
                   of_key = test::read_row(keys.pool(), pages_, j);
      got.insert(got.end(), row.begin(), row.end());
      got_keys.insert(got_keys.end(), of_key.begin(), of_key.end());
    }
    EXPECT_CLOSE(got, floats(name(layer, "entries")), kCodeStep);
    EXPECT_CLOSE(got_keys, floats(name(layer, "index_keys")), kCodeStep);
  }
}

/// Entries or keys of the layer that makes them, as the NumPy pass has them.
template <class Pages>
void fill(const Pages& to, std::span<const PageId> pages, const Values& rows, std::int64_t width) {
  for (std::int64_t j = 0; j < std::ssize(rows) / width; ++j)
    test::write_row(
        to.pool(), pages, j,
        std::span(rows).subspan(static_cast<std::size_t>(j * width), static_cast<std::size_t>(width)));
}

TEST_P(Csa2, SelectionsAndBlocks) {
  const Angles angles;
  std::vector<std::int32_t> chosen;
  for (const int layer : {1, 2, 3}) {
    const int ratio = layer == 1 ? 2 : 1;
    test::IndexKeyPages keys({kKeyDim, Precision::kReleased}, 256 / ratio, 1);
    fill(keys, pages_, floats(name(layer == 1 ? 1 : 2, "index_keys")), kKeyDim);
    const Values q = floats(name(layer, "index_q")), weights = floats(name(layer, "index_weights"));
    std::vector<std::int32_t> selected(kTokens * kTopK, -2);
    const SequenceSlice all = slice();
    IndexerArgs args{.q = {q.data(), {kTokens, kIndexHeads, kKeyDim}},
                     .head_weights = {weights.data(), {kTokens, kIndexHeads}},
                     .cosine = angles.of(angles.cosine),
                     .sine = angles.of(angles.sine),
                     .batch = {tokens_, {&all, 1}},
                     .keys = keys.pool(),
                     .selected = {selected.data(), {kTokens, kTopK}},
                     .ratio = ratio,
                     .hadamard = false};
    if (layer == 2) {
      chosen.assign(kTokens * kBlocks, -2);
      args.blocks = {.size = kBlockSize, .chosen = {chosen.data(), {kTokens, kBlocks}}, .given = {}};
    }
    if (layer == 3)
      args.blocks = {.size = kBlockSize, .chosen = {}, .given = {chosen.data(), {kTokens, kBlocks}}};
    run<ops::Indexer>(args);
    EXPECT_EQ(selected, ints(name(layer, "selected"))) << "layer " << layer;
    if (layer == 2) {
      EXPECT_EQ(chosen, ints("2.blocks"));
    }
  }
}

TEST_P(Csa2, Attention) {
  const Angles angles;
  for (const int layer : {1, 3}) {
    const int ratio = layer == 1 ? 2 : 1;
    test::LatentPages window(format(GroupedCodes::kFp8), 256, 1),
        entries(format(GroupedCodes::kFp4), 256 / ratio, 1);
    fill(window, pages_, floats(name(layer, "window")), kWidth);
    fill(entries, pages_, floats(name(layer == 1 ? 1 : 2, "entries")), kWidth);
    Values q = floats(name(layer, "q")), out(q.size());
    const Values sink = floats(name(layer, "sink"));
    const std::vector<std::int32_t> selected = ints(name(layer, "selected"));
    const SequenceSlice all = slice();
    const auto rope = [&](Values& heads, bool inverse) {
      run<ops::Rope>({.x = {heads.data(), {kTokens, kHeads, kWidth}},
                      .cosine = angles.of(angles.cosine),
                      .sine = angles.of(angles.sine),
                      .inverse = inverse});
    };
    rope(q, false);
    run<ops::SparseAttention>({.q = {q.data(), {kTokens, kHeads, kWidth}},
                               .batch = {tokens_, {&all, 1}},
                               .window = window.pool(),
                               .compressed = entries.pool(),
                               .ratio = ratio,
                               .selected = {selected.data(), {kTokens, kTopK}},
                               .sink = sink,
                               .window_tokens = 8,
                               .scale = 1.0F / std::sqrt(static_cast<float>(kWidth)),
                               .out = {out.data(), {kTokens, kHeads, kWidth}}});
    rope(out, true);
    EXPECT_CLOSE(out, floats(name(layer, "out")), kAttention) << "layer " << layer;
  }
}

INSTANTIATE_TEST_SUITE_P(BothKernels, Csa2, testing::Values(test::kReference, test::kBest));

}  // namespace
}  // namespace baleen
