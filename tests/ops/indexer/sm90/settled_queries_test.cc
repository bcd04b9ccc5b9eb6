// A layer's compressor and indexer beside the rotation of its queries, as a decode step queues them: what
// they read early is there.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "ops/compressor/sm90/compressor.h"
#include "ops/gather_rows/sm90/gather_rows.h"
#include "ops/indexer/sm90/indexer.h"
#include "ops/rope/rope_frequencies.h"
#include "ops/rope/sm90/rope.h"
#include "tests/support/random_weights.h"
#include "tests/support/test_cuda.h"

namespace baleen::sm90 {
namespace {

constexpr std::int64_t kDim = 128, kHeads = 64, kPairs = 32, kTopK = 512, kRowsPerPage = 64;
constexpr std::int64_t kStateWidth = 2 * kDim, kRingRows = 8;
constexpr std::int64_t kCalls = 300;

std::vector<float> values(std::int64_t count, std::uint32_t seed) {
  return test::random_values(static_cast<std::size_t>(count), seed);
}

/// One row that has to be made, out of one of two.
template <class T>
class MadeRow {
 public:
  MadeRow(test::TestCuda& cuda, const T* first, const T* second, std::int64_t count)
      : cuda_(cuda),
        words_(count * static_cast<std::int64_t>(sizeof(T) / sizeof(Bf16Bits))),
        sources_{first, second},
        row_(cuda.allocate<T>(count)) {}

  void make(std::int64_t number) {
    static constexpr std::array<RowPair, 1> kPair{RowPair{0, 0}};
    const auto* from = reinterpret_cast<const Bf16Bits*>(sources_[static_cast<std::size_t>(number % 2)]);
    sm90::gather_rows({.from = View<const Bf16Bits, 2>(from, {1, words_}),
                       .pairs = kPair,
                       .to = View<Bf16Bits, 2>(reinterpret_cast<Bf16Bits*>(row_), {1, words_})},
                      cuda_.context());
  }
  [[nodiscard]] T* row() const { return row_; }

 private:
  test::TestCuda& cuda_;
  std::int64_t words_;
  std::array<const T*, 2> sources_;
  T* row_;
};

/// Other queries and other rows each time, made right before the rotation; nothing in between waits for the
/// host.
void expect_read_in_time(std::int64_t num_keys) {
  test::TestCuda cuda;
  const std::int64_t position = 4 * num_keys - 1;  // completes the last key
  std::vector<PageId> pages, window_pages;
  for (std::int64_t i = 0; i <= num_keys / kRowsPerPage; ++i) pages.push_back(static_cast<PageId>(i));
  for (std::int64_t i = 0; i <= position / 256; ++i) window_pages.push_back(static_cast<PageId>(i));
  const std::vector<TokenId> tokens(1);
  const std::vector<SequenceSlice> slices{{0, 1, position, pages, window_pages}};
  const RaggedBatch batch{tokens, slices};
  cuda.set_batch(batch);

  const auto two_rows = [&](std::int64_t count, std::uint32_t seed) {
    return MadeRow<Bf16Bits>(cuda, cuda.upload_bf16(values(count, seed)),
                             cuda.upload_bf16(values(count, seed + 1)), count);
  };
  MadeRow<Bf16Bits> q = two_rows(kHeads * kDim, 1), weights = two_rows(kHeads, 3);
  MadeRow<float> rows(cuda, cuda.upload(values(2 * kStateWidth, 5)), cuda.upload(values(2 * kStateWidth, 6)),
                      2 * kStateWidth);
  const float* angles = cuda.upload(std::vector<float>(32 * kPairs, 0.5F));
  const ConstActivations<2> angle(angles, {1, kPairs});
  const std::array<std::int64_t, 3> turned{32, kHeads, kDim};
  Bf16Bits* turning = cuda.upload_bf16(values(turned[0] * turned[1] * turned[2], 7));

  const float* ape = cuda.upload(values(4 * kStateWidth, 8));
  const float* norm = cuda.upload(values(kDim, 9));
  const std::vector<float> frequencies = rope_frequencies(160000.0F, 2 * kPairs, nullptr);
  const float* on_device = cuda.upload(frequencies);
  float* state = cuda.upload(values(2 * kRingRows * kStateWidth, 10));
  const IndexKeyFormat format{};
  // Any codes are keys; all scales alike, so that none is NaN.
  const std::int64_t stride = format.page_stride_bytes(kRowsPerPage);
  std::vector<std::byte> bytes(static_cast<std::size_t>(stride) * pages.size(), std::byte{127});
  std::uint32_t random = 1;
  for (std::size_t page = 0; page < pages.size(); ++page) {
    for (std::int64_t i = 0; i < kRowsPerPage * kDim / 2; ++i) {
      random = random * 1664525 + 1013904223;
      bytes[page * static_cast<std::size_t>(stride) + static_cast<std::size_t>(i)] =
          static_cast<std::byte>(random >> 24);
    }
  }
  const IndexKeyPool keys{cuda.upload(bytes), stride, kRowsPerPage, format};
  std::int32_t* selected = cuda.allocate<std::int32_t>(kCalls * kTopK);

  const auto call = [&](std::int64_t number, bool settled) {
    q.make(number);
    weights.make(number);
    rows.make(number);
    sm90::rope({.x = View<Bf16Bits, 3>(turning, turned),
                .cosine = ConstActivations<2>(angles, {turned[0], kPairs}),
                .sine = ConstActivations<2>(angles, {turned[0], kPairs})},
               cuda.context());
    sm90::compressor({.kv = {rows.row(), {1, kStateWidth}},
                      .gate = {rows.row() + kStateWidth, {1, kStateWidth}},
                      .ape = {ape, {4, kStateWidth}},
                      .norm_weight = {norm, kDim},
                      .frequencies = {on_device, frequencies.size()},
                      .ratio = 4,
                      .rows_are_settled = settled,
                      .batch = batch,
                      .state = {state, 2 * kRingRows * kStateWidth, kRingRows, kStateWidth},
                      .index_key = keys},
                     cuda.context());
    sm90::indexer({.q = View<const Bf16Bits, 3>(q.row(), {1, kHeads, kDim}),
                   .head_weights = View<const Bf16Bits, 2>(weights.row(), {1, kHeads}),
                   .cosine = angle,
                   .sine = angle,
                   .queries_are_settled = settled,
                   .batch = batch,
                   .keys = keys,
                   .selected = {selected + number * kTopK, {1, kTopK}}},
                  cuda.context());
  };
  const auto result = [&](std::int64_t number) { return cuda.download(selected + number * kTopK, kTopK); };
  for (const std::int64_t i : {0, 1}) call(i, false);
  const std::vector<std::int32_t> expected[] = {result(0), result(1)};
  ASSERT_NE(expected[0], expected[1]);
  for (std::int64_t i = 0; i < kCalls; ++i) call(i, true);
  for (std::int64_t i = 0; i < kCalls; ++i) {
    EXPECT_EQ(result(i), expected[i % 2]) << num_keys << " keys, call " << i;
  }
}

TEST(SettledQueriesSm90, AreReadBesideTheRotation) {
  BALEEN_NEEDS_GPU();
  for (const std::int64_t num_keys : {600, 1500, 2049, 40'000}) expect_read_in_time(num_keys);
}

}  // namespace
}  // namespace baleen::sm90
