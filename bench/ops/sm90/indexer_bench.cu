// Indexer on Hopper: a prompt's chunk (one sequence, many queries) and decode steps (a query a sequence). A few rows are
// compared with the reference first. GB/s counts the key rows that the queries see, TFLOP/s their dot products.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "bench/support/cuda_bench.h"
#include "ops/indexer/cuda/indexer.h"
#include "tests/support/cache_pages.h"
#include "tests/support/random_weights.h"
#include "tests/support/test_cuda.h"

namespace baleen::sm90 {
namespace {

constexpr std::int64_t kHeads = 64, kDim = 128, kTopK = 512, kPairs = 32;
constexpr std::int64_t kPageKeys = 64;
constexpr std::int64_t kMaxSequences = 64;

__device__ std::uint32_t hash(std::uint64_t x) {
  x = (x ^ x >> 31) * 0x9E3779B97F4A7C15u;
  x = (x ^ x >> 29) * 0xBF58476D1CE4E5B9u;
  return static_cast<std::uint32_t>(x >> 32);
}

/// Pages of random codes and of scales of four binades.
__global__ void fill_pages(std::byte* base, std::int64_t num_pages, std::int64_t stride) {
  const std::int64_t words = stride / 4, all = num_pages * words;
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < all;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    const std::uint32_t random = hash(static_cast<std::uint64_t>(i));
    const bool codes = i % words < kPageKeys * (kDim / 2) / 4;
    reinterpret_cast<std::uint32_t*>(base)[i] = codes ? random : 0x7A7A7A7Au + (random & 0x03030303u);
  }
}

/// Inputs in device memory: keys of kMaxSequences sequences of `num_keys` keys, and queries.
class Workload {
 public:
  Workload(std::int64_t max_rows, std::int64_t num_sequences, std::int64_t num_keys)
      : cuda_(sm90::indexer_scratch_bytes(max_rows, kTopK, 132)),
        pages_each_((num_keys + kPageKeys - 1) / kPageKeys + 1),
        table_(test::shuffled_pages(num_sequences * pages_each_, 0, 1)) {
    const IndexKeyFormat format;
    const std::int64_t stride = format.page_stride_bytes(kPageKeys);
    const auto num_pages = static_cast<std::int64_t>(table_.size());
    keys_ = {cuda_.allocate<std::byte>(num_pages * stride), stride, kPageKeys, format};
    fill_pages<<<1024, 256, 0, cuda_.context().stream>>>(keys_.base, num_pages, stride);
    const auto values = test::random_values(static_cast<std::size_t>(max_rows * kHeads * kDim), 2);
    q_ = cuda_.upload_bf16(values);
    weights_ = cuda_.upload_bf16(std::span(values).first(static_cast<std::size_t>(max_rows * kHeads)));
    cosine_ = cuda_.upload(std::vector<float>(static_cast<std::size_t>(max_rows * kPairs), 0.6F));
    sine_ = cuda_.upload(std::vector<float>(static_cast<std::size_t>(max_rows * kPairs), 0.8F));
    selected_ = cuda_.allocate<std::int32_t>(max_rows * kTopK);
  }

  test::TestCuda& cuda() { return cuda_; }

  /// One batch: sequences first, first + 1, ..., each of `tokens_each` tokens from position `start` on.
  [[nodiscard]] DeviceBatch batch(std::int64_t first, std::int64_t count, std::int64_t tokens_each,
                                  std::int64_t start) {
    slices_.clear();
    for (std::int64_t i = 0; i < count; ++i) {
      const auto pages = std::span(table_).subspan(static_cast<std::size_t>((first + i) * pages_each_),
                                                   static_cast<std::size_t>(pages_each_));
      slices_.push_back({i * tokens_each, tokens_each, start, pages, {}, 0});
    }
    tokens_.assign(static_cast<std::size_t>(count * tokens_each), 0);
    cuda_.set_batch({tokens_, slices_});
    return cuda_.context().batch;
  }

  void launch(const DeviceBatch& batch) {
    cuda_.context().batch = batch;
    const std::int64_t rows = batch.num_rows;
    sm90::indexer({.q = View<const Bf16Bits, 3>(q_, {rows, kHeads, kDim}),
                   .head_weights = View<const Bf16Bits, 2>(weights_, {rows, kHeads}),
                   .cosine = {cosine_, {rows, kPairs}},
                   .sine = {sine_, {rows, kPairs}},
                   .keys = keys_,
                   .selected = {selected_, {rows, kTopK}}},
                  cuda_.context());
  }

  /// Whether row `row` of the batch last made and run has what the reference selects, but for two near ties at most.
  [[nodiscard]] bool verify(std::int64_t row) {
    SequenceSlice slice = slices_[static_cast<std::size_t>(row / slices_[0].num_tokens)];
    const std::int64_t stride = keys_.page_stride_bytes;
    std::vector<PageId> pages;
    std::vector<std::byte> bytes;
    for (const PageId page : slice.pages) {
      const auto one = cuda_.download(keys_.page(static_cast<std::int64_t>(page)), stride);
      bytes.insert(bytes.end(), one.begin(), one.end());
      pages.push_back(static_cast<PageId>(pages.size()));
    }
    slice = {0, 1, slice.start + row - slice.first_row, pages, {}, 0};
    IndexKeyPool keys = keys_;
    keys.base = bytes.data();
    const auto q = cuda_.download_bf16(q_ + row * kHeads * kDim, kHeads * kDim);
    const auto weights = cuda_.download_bf16(weights_ + row * kHeads, kHeads);
    const std::vector<float> cosine(kPairs, 0.6F), sine(kPairs, 0.8F);
    std::vector<std::int32_t> want(kTopK), common;
    const TokenId token = 0;
    indexer_ref({.q = {q.data(), {1, kHeads, kDim}},
                 .head_weights = {weights.data(), {1, kHeads}},
                 .cosine = {cosine.data(), {1, kPairs}},
                 .sine = {sine.data(), {1, kPairs}},
                 .batch = {{&token, 1}, {&slice, 1}},
                 .keys = keys,
                 .selected = {want.data(), {1, kTopK}}});
    const auto got = cuda_.download(selected_ + row * kTopK, kTopK);
    std::set_intersection(got.begin(), got.end(), want.begin(), want.end(), std::back_inserter(common));
    const bool agrees = common.size() + 2 >= want.size();
    if (!agrees) fmt::print(stderr, "row {}: {} of {} keys agree\n", row, common.size(), want.size());
    return agrees;
  }

 private:
  test::TestCuda cuda_;
  std::int64_t pages_each_;
  std::vector<PageId> table_;
  IndexKeyPool keys_;
  Bf16Bits* q_;
  Bf16Bits* weights_;
  float* cosine_;
  float* sine_;
  std::int32_t* selected_;
  std::vector<SequenceSlice> slices_;
  std::vector<TokenId> tokens_;
};

double scored_keys(std::int64_t start, std::int64_t tokens) {
  double keys = 0;
  for (std::int64_t i = 0; i < tokens; ++i) keys += static_cast<double>((start + i + 1) / 4);
  return keys;
}

void report_scan(const std::string& shape, const bench::Timing& timing, double keys, double key_reads,
                 const std::string& against = "") {
  bench::report("indexer", shape, timing, key_reads * 68, keys * kHeads * kDim * 2, against);
}

bool bench_prompt() {
  constexpr std::int64_t kKeys = 32768;
  Workload work(2048, 1, kKeys);
  bool right = true;
  for (const std::int64_t num_queries : {2048, 512, 64}) {
    const std::int64_t start = 4 * kKeys - num_queries;
    const DeviceBatch batch = work.batch(0, 1, num_queries, start);
    work.launch(batch);
    work.cuda().synchronise();
    right &= work.verify(0) && work.verify(num_queries - 1);
    // The keys are read by every block and stay in L2, as they would.
    const auto timing =
        bench::time_launches(work.cuda().context().stream, 2, [&](int) { work.launch(batch); });
    report_scan(fmt::format("prompt {} queries x {} keys", num_queries, kKeys), timing,
                scored_keys(start, num_queries), static_cast<double>(kKeys),
                num_queries == 2048 ? "900 TFLOP/s; aim 1200" : "");
  }
  return right;
}

bool bench_decode() {
  bool right = true;
  for (const std::int64_t positions :
       {std::int64_t{4} << 10, std::int64_t{128} << 10, std::int64_t{1} << 20}) {
    const std::int64_t num_keys = positions / 4;
    Workload work(kMaxSequences, kMaxSequences, num_keys);
    for (const std::int64_t sequences : {1, 16, 64}) {
      std::vector<DeviceBatch> batches;
      const double bytes = static_cast<double>(sequences * num_keys * 68);
      const auto inputs = std::min<std::int64_t>(bench::inputs_beyond_l2(bytes), kMaxSequences / sequences);
      for (std::int64_t i = inputs - 1; i >= 0; --i)
        batches.push_back(work.batch(i * sequences, sequences, 1, positions - 1));
      work.launch(batches.back());
      work.cuda().synchronise();
      // Where the reference needs seconds for a row, one row has to do.
      if (sequences == 1 || num_keys <= 32768) right &= work.verify(sequences - 1);
      const auto timing = bench::time_launches(
          work.cuda().context().stream, std::max<int>(2, static_cast<int>(inputs)),
          [&](int i) { work.launch(batches[static_cast<std::size_t>(i) % batches.size()]); });
      const auto keys = static_cast<double>(sequences * num_keys);
      report_scan(fmt::format("decode {} queries at {} positions", sequences, positions), timing, keys, keys);
    }
  }
  return right;
}

}  // namespace
}  // namespace baleen::sm90

int main() {
  if (!baleen::test::have_gpu()) {
    fmt::print(stderr, "no GPU here\n");
    return 1;
  }
  bool right = baleen::sm90::bench_prompt();
  right &= baleen::sm90::bench_decode();
  if (!right) fmt::print(stderr, "selections differ from the reference's\n");
  return right ? 0 : 1;
}
