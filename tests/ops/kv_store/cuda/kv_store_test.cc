#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "ops/kv_store/cuda/kv_store.h"
#include "ops/rms_norm/cuda/rms_norm.h"
#include "ops/rope/rope_frequencies.h"
#include "tests/support/cache_pages.h"
#include "tests/support/compare.h"
#include "tests/support/random_weights.h"
#include "tests/support/test_cuda.h"

namespace baleen::BALEEN_ARCH {
namespace {

constexpr int kRope = 64;
constexpr std::int64_t kPages = 8;

struct Part {
  std::int64_t start = 0;
  std::vector<float> kv;  ///< BF16 values
  std::span<const PageId> pages;
};

/// Window pages in host memory, and a step that writes to them: on the device if there is one, else the
/// reference.
class Window {
 public:
  /// `grouped`: rows of V4.1.
  explicit Window(int nope, bool grouped = false) : format_{nope, kRope, Precision::kReleased} {
    if (grouped) format_.grouped = GroupedRow{.codes = GroupedCodes::kFp8, .width = nope + kRope};
    bytes_.assign(static_cast<std::size_t>(kPages * format_.page_stride_bytes(256)), std::byte{0xFF});
    weight_ = test::random_values(static_cast<std::size_t>(format_.width()), 2);
  }

  /// `norm_width`: of rows that are normed in the same launch.
  void step(const std::vector<Part>& parts, test::TestCuda* cuda, std::int32_t padding_rows = 0,
            std::int64_t norm_width = 0) {
    const std::vector<float> frequencies = rope_frequencies(10000.0F, kRope, nullptr);
    std::vector<float> kv, cosine, sine;
    std::vector<SequenceSlice> slices;
    std::int64_t num_rows = 0;
    for (const Part& part : parts) {
      const std::int64_t num_tokens = static_cast<std::int64_t>(part.kv.size()) / format_.width();
      slices.push_back({num_rows, num_tokens, part.start, {}, part.pages, 0});
      num_rows += num_tokens;
      kv.insert(kv.end(), part.kv.begin(), part.kv.end());
      for (std::int64_t i = 0; i < num_tokens; ++i) {
        cosine.resize(cosine.size() + kRope / 2);
        sine.resize(cosine.size());
        rope_angles(frequencies, part.start + i, std::span(cosine).last(kRope / 2),
                    std::span(sine).last(kRope / 2));
      }
    }
    const std::vector<TokenId> tokens(static_cast<std::size_t>(num_rows));
    const std::int64_t all_rows = num_rows + padding_rows;
    KvStoreArgs args{.kv = {kv.data(), {num_rows, format_.width()}},
                     .weight = weight_,
                     .cosine = {cosine.data(), {num_rows, kRope / 2}},
                     .sine = {sine.data(), {num_rows, kRope / 2}},
                     .batch = {tokens, slices},
                     .window = pool(bytes_.data())};
    if (cuda == nullptr) return kv_store_ref(args);
    kv.resize(static_cast<std::size_t>(all_rows * format_.width()), 3.0F);
    cosine.resize(static_cast<std::size_t>(all_rows * kRope / 2), 1.0F);
    sine.resize(cosine.size(), 0.0F);
    cuda->set_batch(args.batch, padding_rows);
    std::byte* pages = cuda->upload(bytes_);
    args.kv = View<const Bf16Bits, 2>(cuda->upload_bf16(kv), {all_rows, format_.width()});
    args.weight = {cuda->upload(weight_), weight_.size()};
    args.cosine = {cuda->upload(cosine), {all_rows, kRope / 2}};
    args.sine = {cuda->upload(sine), {all_rows, kRope / 2}};
    args.window = pool(pages);
    if (norm_width > 0) {
      store_beside_norm(args, norm_width, *cuda);
    } else {
      BALEEN_ARCH::kv_store(args, cuda->context());
    }
    cuda->synchronise();
    bytes_ = cuda->download(pages, static_cast<std::int64_t>(bytes_.size()));
  }

  [[nodiscard]] const std::vector<std::byte>& bytes() const { return bytes_; }
  /// All rows of all pages; NaN where none was written.
  [[nodiscard]] std::vector<float> rows() {
    std::vector<float> all;
    for (std::int32_t page = 0; page < kPages; ++page) {
      const std::vector<PageId> table{PageId{page}};
      for (int row = 0; row < 256; ++row) {
        const std::vector<float> values = test::read_row(pool(bytes_.data()), table, row);
        all.insert(all.end(), values.begin(), values.end());
      }
    }
    return all;
  }
  [[nodiscard]] std::size_t width() const { return static_cast<std::size_t>(format_.width()); }

 private:
  /// The norm's rows are those of its own kernel.
  static void store_beside_norm(const KvStoreArgs& store, std::int64_t width, test::TestCuda& cuda) {
    const std::int64_t num_rows = store.kv.extent(0), scales = width / 128;
    std::vector<float> x = test::random_values(static_cast<std::size_t>(num_rows * width), 9);
    for (float& value : x) value = round_bf16(value);
    const std::vector<float> weight = test::random_values(static_cast<std::size_t>(width), 10);
    RmsNormArgs norm{.x = View<const Bf16Bits, 2>(cuda.upload_bf16(x), {num_rows, width}),
                     .weight = {cuda.upload(weight), weight.size()}};
    struct Outcome {
      std::vector<Bf16Bits> y;
      std::vector<std::uint8_t> codes;
      std::vector<float> scales;
    };
    const auto run = [&](auto launch) {
      auto* y = cuda.allocate<Bf16Bits>(num_rows * width);
      norm.y = View<Bf16Bits, 2>(y, {num_rows, width});
      norm.y_fp8 = {.codes = cuda.allocate<std::uint8_t>(num_rows * width),
                    .scales = cuda.allocate<float>(scales * num_rows),
                    .scale_stride = num_rows};
      launch();
      cuda.synchronise();
      return Outcome{cuda.download(y, num_rows * width), cuda.download(norm.y_fp8.codes, num_rows * width),
                     cuda.download(norm.y_fp8.scales, scales * num_rows)};
    };
    const Outcome got = run([&] { BALEEN_ARCH::rms_norm_kv_store(norm, store, cuda.context()); });
    const Outcome want = run([&] { BALEEN_ARCH::rms_norm(norm, cuda.context()); });
    EXPECT_EQ(got.y, want.y);
    EXPECT_EQ(got.codes, want.codes);
    EXPECT_EQ(got.scales, want.scales);
  }

  [[nodiscard]] LatentPool pool(std::byte* base) const {
    return {base, format_.page_stride_bytes(256), 256, format_};
  }

  LatentFormat format_;
  std::vector<float> weight_;
  std::vector<std::byte> bytes_;
};

std::vector<float> bf16_values(std::size_t count, std::uint32_t seed) {
  std::vector<float> values = test::random_values(count, seed, 3.0F);
  for (float& value : values) value = round_bf16(value);
  return values;
}

/// The norm is float32 here and float64 there: one value in thousands rounds to another BF16 value, fewer to
/// another e4m3. Rows with groups of 128 and 192 values have 132 and 198 bytes, so codes begin at odd places.
TEST(KvStoreOnGpu, AgreesWithTheReference) {
  BALEEN_NEEDS_GPU();
  for (const auto& [nope, grouped] :
       {std::pair{64, false}, {192, false}, {448, false}, {64, true}, {128, true}, {448, true}}) {
    for (const std::int64_t start : {0, 127, 250, 70'000, 1'000'000}) {
      for (const std::size_t num_tokens : {1, 9, 300}) {
        std::vector<PageId> pages(4100, PageId::kNone);
        for (std::int32_t i = 0; i < 3; ++i)
          pages[static_cast<std::size_t>(start / 256 + i)] = PageId{6 - 2 * i};
        const std::vector<PageId> other{PageId{7}};
        test::TestCuda cuda(1 << 20);
        Window got(nope, grouped), want(nope, grouped);
        const Part mine{start, bf16_values(num_tokens * got.width(), 1), pages};
        const Part theirs{17, bf16_values(2 * got.width(), 5), other};
        got.step({theirs, mine}, &cuda, num_tokens == 9 ? 3 : 0);
        want.step({theirs, mine}, nullptr);
        EXPECT_CLOSE(got.rows(), want.rows(), {.norm = 1e-3});
        std::size_t different = 0;
        for (std::size_t i = 0; i < got.bytes().size(); ++i)
          different += got.bytes()[i] != want.bytes()[i] ? 1 : 0;
        EXPECT_LE(different, (num_tokens + 2) * got.width() / 1000 + 1) << nope << " at " << start;
      }
    }
  }
}

/// Zeros, a NaN, and magnitudes far apart: every code and scale, for the norm is of powers of two.
TEST(KvStoreOnGpu, RowsWithGroupsAreThoseOfTheReference) {
  BALEEN_NEEDS_GPU();
  test::TestCuda cuda(1 << 20);
  const std::vector<PageId> pages{PageId{3}};
  Window got(448, true), want(448, true);
  std::vector<float> kv(5 * got.width(), 0.0F);
  for (std::size_t row = 1; row < 5; ++row) {
    for (std::size_t i = 0; i < got.width(); ++i) {
      const int exponent = static_cast<int>(i / 32) * 3 - 30;
      kv[row * got.width() + i] = std::ldexp((i + row) % 3 == 0 ? -1.0F : 1.0F, exponent);
    }
  }
  kv[4 * got.width() + 70] = std::nanf("");
  got.step({{0, kv, pages}}, &cuda);
  want.step({{0, kv, pages}}, nullptr);
  EXPECT_CLOSE(got.rows(), want.rows(), {.norm = 1e-3});
}

TEST(KvStoreOnGpu, NormsInTheSameLaunchChangeNothing) {
  BALEEN_NEEDS_GPU();
  const std::vector<PageId> pages{PageId{6}, PageId{4}, PageId{2}};
  for (const std::int64_t norm_width : {128, 1024, 1536, 4096}) {
    for (const std::size_t num_tokens : {1, 9, 300}) {
      for (const bool grouped : {false, true}) {
        test::TestCuda cuda(1 << 20);
        Window together(448, grouped), alone(448, grouped);
        const Part part{5, bf16_values(num_tokens * alone.width(), 1), pages};
        together.step({part}, &cuda, 3, norm_width);
        alone.step({part}, &cuda, 3);
        EXPECT_EQ(together.bytes(), alone.bytes()) << norm_width << ", " << num_tokens << " tokens";
      }
    }
  }
}

TEST(KvStoreOnGpu, CutsCompanyAndPaddingDoNotShow) {
  BALEEN_NEEDS_GPU();
  constexpr std::size_t kTokens = 300;
  const std::vector<PageId> pages{PageId{1}, PageId{0}}, other_pages{PageId{2}};
  test::TestCuda cuda(1 << 20);
  Window whole(448);
  const std::size_t width = whole.width();
  const std::vector<float> kv = bf16_values(kTokens * width, 1);
  const auto cut_of = [&](std::size_t begin, std::size_t count) {
    return std::vector<float>(kv.begin() + static_cast<std::ptrdiff_t>(begin * width),
                              kv.begin() + static_cast<std::ptrdiff_t>((begin + count) * width));
  };
  whole.step({{3, cut_of(0, 2), other_pages}, {0, kv, pages}}, &cuda);
  for (const std::size_t chunk : {7, 64, 255}) {
    Window cut(448);
    for (std::size_t begin = 0; begin < kTokens; begin += chunk) {
      const std::size_t count = std::min(chunk, kTokens - begin);
      cut.step(
          {{3, cut_of(0, 2), other_pages}, {static_cast<std::int64_t>(begin), cut_of(begin, count), pages}},
          &cuda, static_cast<std::int32_t>(begin % 5));
    }
    EXPECT_EQ(cut.bytes(), whole.bytes()) << chunk;
  }
}

}  // namespace
}  // namespace baleen::BALEEN_ARCH
