// Entries and index keys on the device against the reference on the CPU, and what must stay untouched.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "numeric/bf16.h"
#include "ops/entry_store/cuda/entry_store.h"
#include "ops/rope/rope_frequencies.h"
#include "tests/support/cache_pages.h"
#include "tests/support/compare.h"
#include "tests/support/random_weights.h"
#include "tests/support/test_cuda.h"

namespace baleen::BALEEN_ARCH {
namespace {

constexpr int kRope = 64, kKeyDim = 128;
constexpr std::int64_t kPages = 8;

struct Part {
  SequenceSlice slice;             ///< first_row and num_tokens are filled in
  std::vector<float> latent, key;  ///< BF16 values
};

/// Pages of entries and keys in host memory between steps.
class Pages {
 public:
  Pages(int ratio, int width)
      : ratio_(ratio),
        entry_{.nope = width - kRope,
               .rope = kRope,
               .grouped = GroupedRow{.codes = GroupedCodes::kFp4, .width = width}},
        frequencies_(rope_frequencies(160000.0F, kRope, nullptr)),
        key_norm_(test::random_values(kKeyDim, 12)),
        entries_(static_cast<std::size_t>(kPages * entry_.page_stride_bytes(256 / ratio)), std::byte{0xFF}),
        keys_(static_cast<std::size_t>(kPages * IndexKeyFormat{}.page_stride_bytes(256 / ratio)),
              std::byte{0xFF}) {}

  /// On the device if there is one, else the reference.
  void step(const std::vector<Part>& parts, test::TestCuda* cuda, std::int32_t padding_rows = 0) {
    const std::int64_t width = entry_.width();
    std::vector<float> latent, key;
    std::vector<SequenceSlice> slices;
    for (const Part& part : parts) {
      SequenceSlice slice = part.slice;
      slice.first_row = std::ssize(key) / kKeyDim;
      slice.num_tokens = std::ssize(part.key) / kKeyDim;
      slices.push_back(slice);
      latent.insert(latent.end(), part.latent.begin(), part.latent.end());
      key.insert(key.end(), part.key.begin(), part.key.end());
    }
    const std::int64_t num_rows = std::ssize(key) / kKeyDim, all = num_rows + padding_rows;
    const std::vector<TokenId> tokens(static_cast<std::size_t>(num_rows));
    EntryStoreArgs args{.latent = {latent.data(), {num_rows, width}},
                        .key = {key.data(), {num_rows, kKeyDim}},
                        .key_norm = key_norm_,
                        .frequencies = frequencies_,
                        .ratio = ratio_,
                        .batch = {tokens, slices},
                        .entries = entry_pool(entries_.data()),
                        .index_keys = key_pool(keys_.data())};
    if (cuda == nullptr) return entry_store_ref(args);
    latent.resize(static_cast<std::size_t>(all * width), 3.0F);
    key.resize(static_cast<std::size_t>(all * kKeyDim), 3.0F);
    cuda->set_batch(args.batch, padding_rows);
    std::byte* entries = cuda->upload(entries_);
    std::byte* keys = cuda->upload(keys_);
    args.latent = View<const Bf16Bits, 2>(cuda->upload_bf16(latent), {all, width});
    args.key = View<const Bf16Bits, 2>(cuda->upload_bf16(key), {all, kKeyDim});
    args.key_norm = {cuda->upload(key_norm_), key_norm_.size()};
    args.frequencies = {cuda->upload(frequencies_), frequencies_.size()};
    args.entries = entry_pool(entries);
    args.index_keys = key_pool(keys);
    BALEEN_ARCH::entry_store(args, cuda->context());
    cuda->synchronise();
    entries_ = cuda->download(entries, std::ssize(entries_));
    keys_ = cuda->download(keys, std::ssize(keys_));
  }

  [[nodiscard]] const std::vector<std::byte>& entries() const { return entries_; }
  [[nodiscard]] const std::vector<std::byte>& keys() const { return keys_; }
  /// All keys of all pages; NaN where none was written.
  [[nodiscard]] std::vector<float> key_values() {
    std::vector<float> values;
    for (std::int32_t page = 0; page < kPages; ++page) {
      const std::vector<PageId> table{PageId{page}};
      for (int row = 0; row < 256 / ratio_; ++row) {
        const std::vector<float> key = test::read_row(key_pool(keys_.data()), table, row);
        values.insert(values.end(), key.begin(), key.end());
      }
    }
    return values;
  }

 private:
  [[nodiscard]] LatentPool entry_pool(std::byte* base) const {
    return {base, entry_.page_stride_bytes(256 / ratio_), 256 / ratio_, entry_};
  }
  [[nodiscard]] IndexKeyPool key_pool(std::byte* base) const {
    return {base, IndexKeyFormat{}.page_stride_bytes(256 / ratio_), 256 / ratio_, {}};
  }

  int ratio_;
  LatentFormat entry_;
  std::vector<float> frequencies_, key_norm_;
  std::vector<std::byte> entries_, keys_;
};

std::vector<float> bf16_values(std::int64_t count, std::uint32_t seed) {
  std::vector<float> values = test::random_values(static_cast<std::size_t>(count), seed, 2.0F);
  for (float& value : values) value = round_bf16(value);
  return values;
}

Part part_of(int width, std::int64_t start, std::int64_t num_tokens, std::span<const PageId> pages,
             std::uint32_t seed) {
  return {.slice = {0, 0, start, pages, {}, 0},
          .latent = bf16_values(num_tokens * width, seed),
          .key = bf16_values(num_tokens * kKeyDim, seed + 1)};
}

std::size_t num_different(const std::vector<std::byte>& got, const std::vector<std::byte>& want) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < got.size(); ++i) count += got[i] != want[i] ? 1 : 0;
  return count;
}

/// Entries are rotated and rounded alike; the norm of keys is float32 here and float64 there, so that now and
/// then a value rounds to another BF16 number.
TEST(EntryStoreOnGpu, AgreesWithTheReference) {
  BALEEN_NEEDS_GPU();
  for (const int ratio : {1, 2}) {
    for (const int width : {128, 512}) {
      for (const std::int64_t start : {0, 1, 250, 70'001, 1'000'000}) {
        for (const std::int64_t num_tokens : {1, 9, 300}) {
          std::vector<PageId> pages(4100, PageId::kNone);
          for (std::int32_t i = 0; i < 3; ++i)
            pages[static_cast<std::size_t>(start / 256 + i)] = PageId{6 - 2 * i};
          const std::vector<PageId> other{PageId{7}};
          test::TestCuda cuda(1 << 20);
          Pages got(ratio, width), want(ratio, width);
          const std::vector<Part> parts{part_of(width, 17, 2, other, 3),
                                        part_of(width, start, num_tokens, pages, 5)};
          got.step(parts, &cuda, num_tokens == 9 ? 3 : 0);
          want.step(parts, nullptr);
          EXPECT_EQ(num_different(got.entries(), want.entries()), 0U)
              << "ratio " << ratio << ", start " << start;
          EXPECT_LE(num_different(got.keys(), want.keys()),
                    static_cast<std::size_t>((num_tokens + 2) * kKeyDim / 200 + 1));
          EXPECT_CLOSE(got.key_values(), want.key_values(), {.norm = 2e-2});
        }
      }
    }
  }
}

/// Zeros, infinities, a NaN, and magnitudes from below the smallest scale to beyond the largest.
TEST(EntryStoreOnGpu, HardRowsAreThoseOfTheReference) {
  BALEEN_NEEDS_GPU();
  constexpr int kWidth = 512;
  const std::vector<PageId> pages{PageId{3}};
  test::TestCuda cuda(1 << 20);
  Pages got(1, kWidth), want(1, kWidth);
  Part part = part_of(kWidth, 0, 4, pages, 5);
  for (std::size_t i = 0; i < kWidth; ++i) {
    part.latent[i] = 0;
    part.latent[kWidth + i] *= std::ldexp(1.0F, static_cast<int>(i / 16) - 14);
  }
  part.latent[2 * kWidth + 33] = std::nanf("");
  part.latent[3 * kWidth + 40] = -INFINITY;
  std::fill_n(part.key.begin(), kKeyDim, 0.0F);
  got.step({part}, &cuda);
  want.step({part}, nullptr);
  EXPECT_EQ(num_different(got.entries(), want.entries()), 0U);
  EXPECT_LE(num_different(got.keys(), want.keys()), 4U);
}

TEST(EntryStoreOnGpu, EntriesThatExistAreLeftAlone) {
  BALEEN_NEEDS_GPU();
  const std::vector<PageId> pages{PageId{0}, PageId{1}};
  for (const int ratio : {1, 2}) {
    test::TestCuda cuda(1 << 20);
    Pages got(ratio, 128), want(ratio, 128);
    Part replayed = part_of(128, 252, 8, pages, 5);
    replayed.slice.entries_until = 256;
    got.step({replayed}, &cuda);
    want.step({replayed}, nullptr);
    EXPECT_EQ(num_different(got.entries(), want.entries()), 0U);
  }
}

TEST(EntryStoreOnGpu, CutsBatchCompositionAndPaddingDoNotShow) {
  BALEEN_NEEDS_GPU();
  constexpr std::int64_t kTokens = 261, kWidth = 512;
  const std::vector<PageId> pages{PageId{1}, PageId{0}}, other_pages{PageId{2}};
  for (const int ratio : {1, 2}) {
    test::TestCuda cuda(1 << 20);
    const Part all = part_of(kWidth, 0, kTokens, pages, 5), other = part_of(kWidth, 3, 2, other_pages, 9);
    Pages whole(ratio, kWidth);
    whole.step({other, all}, &cuda);
    for (const std::int64_t chunk : {7, 64}) {
      Pages cut(ratio, kWidth);
      for (std::int64_t begin = 0; begin < kTokens; begin += chunk) {
        const std::int64_t end = std::min(kTokens, begin + chunk);
        Part part{.slice = all.slice};
        part.slice.start = begin;
        part.latent.assign(all.latent.begin() + begin * kWidth, all.latent.begin() + end * kWidth);
        part.key.assign(all.key.begin() + begin * kKeyDim, all.key.begin() + end * kKeyDim);
        cut.step({other, part}, &cuda, static_cast<std::int32_t>(begin % 5));
      }
      EXPECT_EQ(cut.entries(), whole.entries());
      EXPECT_EQ(cut.keys(), whole.keys());
    }
  }
}

}  // namespace
}  // namespace baleen::BALEEN_ARCH
