// Compressed entries: by hand, SIMD against the reference, and that neither chunks, threads nor batch
// composition show in them.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <limits>
#include <vector>

#include "ops/compressor/compressor.h"
#include "ops/rope/rope_frequencies.h"
#include "tests/support/cache_pages.h"
#include "tests/support/compare.h"
#include "tests/support/every_target.h"
#include "tests/support/random_weights.h"
#include "tests/support/test_cpu.h"

namespace baleen {
namespace {

constexpr int kRope = 64;

struct Shape {
  int ratio = 4;
  int head_dim = 128;
  bool indexer = false;
  Precision precision = Precision::kReleased;

  [[nodiscard]] std::int64_t width() const { return (ratio == 4 ? 2 : 1) * head_dim; }
};

/// A layer's compressor with its rings and pages, for several sequences; everything unwritten reads as NaN.
class Layer {
 public:
  Layer(const Shape& shape, std::int64_t num_slots, std::int64_t num_pages)
      : shape_(shape),
        frequencies_(rope_frequencies(160000.0F, kRope, nullptr)),
        ape_(test::random_values(static_cast<std::size_t>(shape.ratio * shape.width()), 11)),
        weight_(test::random_values(static_cast<std::size_t>(shape.head_dim), 12)),
        ring_rows_(shape.ratio == 4 ? 8 : 128),
        state_(static_cast<std::size_t>(num_slots * 2 * ring_rows_ * shape.width()), std::nanf("")),
        overlap_(static_cast<std::size_t>(shape.ratio == 4 ? num_pages * overlap_stride() : 0),
                 std::nanf("")),
        latent_({shape.head_dim - kRope, kRope, shape.precision}, 256 / shape.ratio, num_pages),
        keys_({128, shape.precision}, 64, num_pages) {}

  struct Part {
    SequenceSlice slice;  ///< first_row is filled in by `step`
    std::span<const float> kv;
    std::span<const float> gate;
  };

  void step(std::vector<Part> parts, int num_threads, test::Kernels kernels = test::kBest) {
    std::vector<float> kv, gate;
    std::vector<SequenceSlice> slices;
    std::int64_t num_rows = 0;
    for (Part& part : parts) {
      part.slice.first_row = num_rows;
      part.slice.num_tokens = static_cast<std::int64_t>(part.kv.size()) / shape_.width();
      num_rows += part.slice.num_tokens;
      slices.push_back(part.slice);
      kv.insert(kv.end(), part.kv.begin(), part.kv.end());
      gate.insert(gate.end(), part.gate.begin(), part.gate.end());
    }
    const std::vector<TokenId> tokens(static_cast<std::size_t>(num_rows));
    test::TestCpu cpu(num_threads, compressor_scratch_bytes(shape_.head_dim, num_threads), kernels);
    const CompressorArgs args{.kv = {kv.data(), {num_rows, shape_.width()}},
                              .gate = {gate.data(), {num_rows, shape_.width()}},
                              .ape = {ape_.data(), {shape_.ratio, shape_.width()}},
                              .norm_weight = weight_,
                              .frequencies = frequencies_,
                              .ratio = shape_.ratio,
                              .precision = shape_.precision,
                              .batch = {tokens, slices},
                              .state = rings(),
                              .overlap = overlap(),
                              .latent = shape_.indexer ? LatentPool{} : latent_.pool(),
                              .index_key = shape_.indexer ? keys_.pool() : IndexKeyPool{}};
    cpu.run<ops::Compressor>(args);
  }

  [[nodiscard]] std::vector<float> entry(std::span<const PageId> pages, std::int64_t j) const {
    return shape_.indexer ? test::read_row(keys_.pool(), pages, j) : test::read_row(latent_.pool(), pages, j);
  }

  /// Position biases and norm weights that change nothing.
  void make_plain() {
    std::fill(ape_.begin(), ape_.end(), 0.0F);
    std::fill(weight_.begin(), weight_.end(), 1.0F);
  }
  [[nodiscard]] std::vector<float>& ape() { return ape_; }

  [[nodiscard]] CompressorState rings() {
    return {state_.data(), 2 * ring_rows_ * shape_.width(), ring_rows_, shape_.width()};
  }
  [[nodiscard]] CompressorOverlap overlap() {
    return {overlap_.empty() ? nullptr : overlap_.data(), overlap_stride(), shape_.head_dim};
  }
  /// Overlap rows of the first pages; empty without any.
  [[nodiscard]] std::span<const float> overlap_values(std::size_t num_pages) const {
    const auto count = num_pages * static_cast<std::size_t>(overlap_stride());
    return std::span(overlap_).first(std::min(overlap_.size(), count));
  }

 private:
  [[nodiscard]] std::int64_t overlap_stride() const { return 2 * kOverlapRows * shape_.head_dim; }

  Shape shape_;
  std::vector<float> frequencies_;
  std::vector<float> ape_, weight_;
  std::int64_t ring_rows_;
  std::vector<float> state_;
  std::vector<float> overlap_;
  test::LatentPages latent_;
  test::IndexKeyPages keys_;
};

SequenceSlice sequence(std::int64_t start, std::span<const PageId> pages, std::int32_t slot = 0) {
  return {0, 0, start, pages, pages, slot};
}

/// y / rms(y) of the first values, which are not rotated.
std::vector<float> normalised(std::vector<float> y) {
  double squares = 0;
  for (const float value : y) squares += static_cast<double>(value) * value;
  const double inverse = 1 / std::sqrt(squares / static_cast<double>(y.size()) + 1e-6);
  for (float& value : y) value = static_cast<float>(value * inverse);
  return y;
}

TEST(Compressor, EqualGatesGiveTheMeanOfBothBlocks) {
  const Shape shape{4, 128, false, Precision::kExact};
  const std::vector<PageId> pages{PageId{0}};
  Layer layer(shape, 1, 1);
  layer.make_plain();
  const std::vector<float> kv = test::random_values(8 * 256, 1), gate(kv.size(), 0.25F);
  layer.step({{sequence(0, pages), kv, gate}}, 1, test::kReference);
  std::vector<float> first(128, 0.0F), second(128, 0.0F);
  for (std::size_t t = 0; t < 4; ++t) {
    for (std::size_t i = 0; i < 128; ++i) {
      first[i] += kv[t * 256 + 128 + i] / 4;  // block -1 does not count
      second[i] += kv[t * 256 + i] / 8 + kv[(t + 4) * 256 + 128 + i] / 8;
    }
  }
  EXPECT_CLOSE(std::span<const float>(layer.entry(pages, 0)).first(64),
               std::span<const float>(normalised(first)).first(64), {.norm = 1e-6});
  EXPECT_CLOSE(std::span<const float>(layer.entry(pages, 1)).first(64),
               std::span<const float>(normalised(second)).first(64), {.norm = 1e-6});
}

TEST(Compressor, PositionBiasPicksARow) {
  const Shape shape{128, 128, false, Precision::kExact};
  const std::vector<PageId> pages{PageId{0}};
  Layer layer(shape, 1, 1);
  layer.make_plain();
  std::fill_n(layer.ape().begin() + 77 * 128, 128, 1000.0F);  // the softmax is all row 77
  const std::vector<float> kv = test::random_values(128 * 128, 1), gate(kv.size(), 0.0F);
  layer.step({{sequence(0, pages), kv, gate}}, 1, test::kReference);
  const std::vector<float> row(kv.begin() + 77 * 128, kv.begin() + 78 * 128);
  const std::vector<float> got = layer.entry(pages, 0),
                           want = normalised(row);  // rotated at position 0: not at all
  EXPECT_CLOSE(got, want, {.norm = 1e-6});
}

TEST(Compressor, UnfinishedBlocksProduceNothing) {
  for (const int ratio : {4, 128}) {
    const Shape shape{ratio, 128, false, Precision::kReleased};
    const std::vector<PageId> pages{PageId{0}};
    Layer layer(shape, 1, 1);
    const std::vector<float> kv =
        test::random_values(static_cast<std::size_t>((ratio - 1) * shape.width()), 1);
    layer.step({{sequence(0, pages), kv, kv}}, 1);
    EXPECT_TRUE(std::isnan(layer.entry(pages, 0)[0]));
    const std::vector<float> last = test::random_values(static_cast<std::size_t>(shape.width()), 2);
    layer.step({{sequence(ratio - 1, pages), last, last}}, 1);
    EXPECT_FALSE(std::isnan(layer.entry(pages, 0)[0]));
  }
}

class CompressorSimd : public test::EveryTarget {};

std::vector<Shape> all_shapes() {
  std::vector<Shape> shapes;
  for (const Precision precision : {Precision::kExact, Precision::kBf16, Precision::kReleased}) {
    shapes.push_back({4, 128, false, precision});
    shapes.push_back({4, 512, false, precision});
    shapes.push_back({128, 512, false, precision});
    shapes.push_back({4, 128, true, precision});
  }
  return shapes;
}

TEST_P(CompressorSimd, AgreesWithTheReference) {
  for (const Shape& shape : all_shapes()) {
    // BF16 and the coarse grids of FP8 and FP4 round the other way here and there.
    const double norm = shape.precision == Precision::kExact  ? 1e-6
                        : shape.precision == Precision::kBf16 ? 3e-4
                                                              : 4e-3;
    const std::vector<PageId> pages = test::shuffled_pages(3, 0, 1);
    constexpr std::int64_t kTokens = 515;
    Layer got(shape, 1, 3), want(shape, 1, 3);
    const std::vector<float> kv = test::random_values(static_cast<std::size_t>(kTokens * shape.width()), 3);
    const std::vector<float> gate = test::random_values(kv.size(), 4, 4.0F);
    got.step({{sequence(0, pages), kv, gate}}, 2);
    want.step({{sequence(0, pages), kv, gate}}, 1, test::kReference);
    std::vector<float> got_all, want_all;
    for (std::int64_t j = 0; j < kTokens / shape.ratio; ++j) {
      for (const float value : got.entry(pages, j)) got_all.push_back(value);
      for (const float value : want.entry(pages, j)) want_all.push_back(value);
    }
    EXPECT_CLOSE(got_all, want_all, {.norm = norm});
  }
}

/// Feeds `tokens` positions from `start` in random pieces, beside another sequence; the pages must equal
/// `want`.
void feed_in_pieces(Layer& layer, const Shape& shape, std::int64_t start, std::span<const PageId> pages,
                    std::span<const PageId> other_pages, const std::vector<float>& kv,
                    const std::vector<float>& gate, const std::vector<std::int64_t>& pieces) {
  const auto width = static_cast<std::size_t>(shape.width());
  const std::size_t num_tokens = kv.size() / width;
  std::size_t begin = 0, round = 0;
  while (begin < num_tokens) {
    const std::size_t count =
        std::min(num_tokens - begin, static_cast<std::size_t>(pieces[round % pieces.size()]));
    const auto part = [&](const std::vector<float>& all) {
      return std::span(all).subspan(begin * width, count * width);
    };
    const std::span<const float> other = std::span(kv).first(3 * width);
    layer.step({{sequence(static_cast<std::int64_t>(3 * round), other_pages, 0), other, other},
                {sequence(start + static_cast<std::int64_t>(begin), pages, 1), part(kv), part(gate)}},
               1 + static_cast<int>(round % 2));
    begin += count;
    ++round;
  }
}

TEST_P(CompressorSimd, ChunksThreadsAndCompanyDoNotShow) {
  const std::vector<PageId> pages = test::shuffled_pages(3, 0, 1);
  const std::vector<PageId> other_pages = test::shuffled_pages(4, 3, 2);
  for (const Shape& shape : {Shape{4, 128, false, Precision::kReleased},
                             {128, 128, false, Precision::kExact},
                             {4, 128, true, Precision::kReleased},
                             {4, 128, true, Precision::kBf16}}) {
    constexpr std::int64_t kTokens = 520;
    const std::vector<float> kv = test::random_values(static_cast<std::size_t>(kTokens * shape.width()), 3);
    const std::vector<float> gate = test::random_values(kv.size(), 4, 4.0F);
    Layer whole(shape, 2, 7);
    whole.step({{sequence(0, pages, 1), kv, gate}}, 1);
    const auto same = [&](const std::vector<std::int64_t>& pieces) {
      Layer cut(shape, 2, 7);
      feed_in_pieces(cut, shape, 0, pages, other_pages, kv, gate, pieces);
      std::string difference =
          test::bit_difference(cut.overlap_values(pages.size()), whole.overlap_values(pages.size()));
      for (std::int64_t j = 0; j < kTokens / shape.ratio && difference.empty(); ++j) {
        difference = test::bit_difference(cut.entry(pages, j), whole.entry(pages, j));
      }
      return difference;
    };
    EXPECT_EQ(same({3, 1}), "");
    EXPECT_EQ(same({64}), "");
    EXPECT_EQ(same({127, 1, 2}), "");
    EXPECT_TRUE(rc::check([&] {
      const auto pieces = *rc::gen::suchThat(
          rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(4, 200)),
          [](const auto& drawn) { return !drawn.empty(); });
      RC_ASSERT(same(pieces) == "");
    }));
  }
}

TEST_P(CompressorSimd, FarPositionsRotateByTheirOwn) {
  // Two far starts whose block boundaries agree: before the rotation the entries are the same.
  const Shape shape{4, 128, false, Precision::kExact};
  std::vector<PageId> pages(300, PageId::kNone);
  pages[273] = PageId{0};  // positions 69,888 to 70,143
  const std::vector<PageId> near_pages{PageId{0}};
  const std::vector<float> kv = test::random_values(16 * 256, 3), gate = test::random_values(16 * 256, 4);
  Layer far(shape, 1, 1), near(shape, 1, 1);
  far.step({{sequence(70'000, pages), kv, gate}}, 1);
  near.step({{sequence(112, near_pages), kv, gate}}, 1);
  const std::vector<float> frequencies = rope_frequencies(160000.0F, kRope, nullptr);
  for (std::int64_t j = 1; j < 4; ++j) {  // entry 0 of the step reads the ring, which was not written
    std::vector<float> got = far.entry(pages, 70'000 / 4 + j), want = near.entry(near_pages, 112 / 4 + j);
    EXPECT_SAME_BITS(std::span<const float>(got).first(64), std::span<const float>(want).first(64));
    std::vector<float> cosine(32), sine(32);
    for (auto& [row, position] : {std::pair{&got, 70'000 + 4 * j}, std::pair{&want, 112 + 4 * j}}) {
      rope_angles(frequencies, position, cosine, sine);
      for (float& value : sine) value = -value;
      rotate_pairs(std::span(*row).last(64), cosine, sine);
    }
    EXPECT_CLOSE(got, want, {.norm = 1e-6});
  }
}

TEST_P(CompressorSimd, NaNStaysVisible) {
  const Shape shape{4, 128, false, Precision::kExact};
  const std::vector<PageId> pages{PageId{0}};
  for (const bool in_gate : {false, true}) {
    std::vector<float> kv = test::random_values(4 * 256, 3), gate = test::random_values(4 * 256, 4);
    (in_gate ? gate : kv)[2 * 256 + 128 + 5] = std::nanf("");
    Layer layer(shape, 1, 1);
    layer.step({{sequence(0, pages), kv, gate}}, 1);
    EXPECT_TRUE(std::isnan(layer.entry(pages, 0)[5]));
  }
}

/// Another sequence goes on where a page of the first one ends: with rings that hold nothing but that page's
/// overlap rows it makes the same entries.
TEST_P(CompressorSimd, APagesOverlapRowsAreAllThatGoingOnAfterItNeeds) {
  const std::vector<PageId> pages = test::shuffled_pages(3, 0, 1);
  for (const test::Kernels kernels : {test::kBest, test::kReference}) {
    for (const Shape& shape :
         {Shape{4, 128, false, Precision::kExact}, {4, 128, true, Precision::kReleased}}) {
      constexpr std::int64_t kTokens = 530, kBegin = 256;
      const auto width = static_cast<std::size_t>(shape.width());
      const std::vector<float> kv = test::random_values(static_cast<std::size_t>(kTokens) * width, 3);
      const std::vector<float> gate = test::random_values(kv.size(), 4, 4.0F);
      Layer layer(shape, 2, 3);
      layer.step({{sequence(0, pages), kv, gate}}, 1, kernels);
      std::vector<std::vector<float>> want;
      for (std::int64_t j = 0; j < kTokens / 4; ++j) want.push_back(layer.entry(pages, j));

      const CompressorOverlap overlap = layer.overlap();
      const CompressorState rings = layer.rings();
      for (std::int64_t position = kBegin - kOverlapRows; position < kBegin; ++position) {
        std::copy_n(overlap.kv_row(pages[0], position), overlap.width, rings.kv_row(1, position));
        std::copy_n(overlap.gate_row(pages[0], position), overlap.width, rings.gate_row(1, position));
      }
      const auto rest = [&](const std::vector<float>& all) { return std::span(all).subspan(kBegin * width); };
      layer.step({{sequence(kBegin, pages, 1), rest(kv), rest(gate)}}, 1, kernels);
      for (std::int64_t j = 0; j < kTokens / 4; ++j) {
        EXPECT_SAME_BITS(layer.entry(pages, j), want[static_cast<std::size_t>(j)]) << j;
      }
    }
  }
}

TEST_P(CompressorSimd, OverlapRowsHoldTheFirstHalvesWithTheBias) {
  const std::vector<PageId> pages{PageId{1}, PageId{0}};
  const Shape shape{4, 128, false, Precision::kExact};
  const std::vector<float> kv = test::random_values(300 * 256, 3), gate = test::random_values(300 * 256, 4);
  Layer layer(shape, 1, 2), plain(shape, 1, 2);
  layer.step({{sequence(0, pages), kv, gate}}, 1);
  plain.step({{sequence(0, pages), kv, gate}}, 1, test::kReference);
  EXPECT_SAME_BITS(layer.overlap_values(2), plain.overlap_values(2));
  for (std::size_t t = 252; t < 256; ++t) {
    for (std::size_t i = 0; i < 128; ++i) {
      const auto position = static_cast<std::int64_t>(t);
      EXPECT_EQ(layer.overlap().kv_row(PageId{1}, position)[i], kv[t * 256 + i]);
      EXPECT_EQ(layer.overlap().gate_row(PageId{1}, position)[i],
                gate[t * 256 + i] + layer.ape()[t % 4 * 256 + i]);
    }
  }
  EXPECT_TRUE(std::isnan(layer.overlap().kv_row(PageId{0}, 252)[0]));  // the second page is not full
}

TEST_P(CompressorSimd, EntriesThatExistAreLeftAlone) {
  const std::vector<PageId> pages{PageId{0}, PageId{1}, PageId{2}};
  for (const test::Kernels kernels : {test::kBest, test::kReference}) {
    for (const int ratio : {4, 128}) {
      const Shape shape{ratio, 128, false, Precision::kExact};
      const std::vector<float> kv = test::random_values(static_cast<std::size_t>(600 * shape.width()), 3);
      Layer layer(shape, 1, 3);
      SequenceSlice replayed = sequence(0, pages);
      replayed.entries_until = 512;
      layer.step({{replayed, kv, kv}}, 1, kernels);
      for (std::int64_t j = 0; j < 600 / ratio; ++j) {
        EXPECT_EQ(std::isnan(layer.entry(pages, j)[0]), j < 512 / ratio) << j;
      }
      // Rows are kept for what comes after: an entry of the next step is there.
      const std::vector<float> more = test::random_values(static_cast<std::size_t>(40 * shape.width()), 5);
      layer.step({{sequence(600, pages), more, more}}, 1, kernels);
      EXPECT_FALSE(std::isnan(layer.entry(pages, 639 / ratio)[0]));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, CompressorSimd, testing::ValuesIn(test::compiled_targets()),
                         test::target_name);

}  // namespace
}  // namespace baleen
