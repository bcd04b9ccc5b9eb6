#include "hardware/machine_limits.h"

#include <hwy/cache_control.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <utility>
#include <vector>

#include "base/error.h"
#include "numeric/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "hardware/machine_limits.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Adds up `count` words, a multiple of 256, through four independent sums. kAhead: asks for the words so far
/// ahead itself, or for none, as processors differ in whether that helps.
template <std::int64_t kAhead>
std::uint32_t sum_words(const std::uint32_t* words, std::int64_t count) {
  const hn::CappedTag<std::uint32_t, 16> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto a = hn::Zero(d), b = a, c = a, e = a;
  for (std::int64_t i = 0; i < count; i += 4 * lanes) {
    for (std::int64_t line = 0; kAhead > 0 && line < 4 * lanes; line += 16) {
      hwy::Prefetch(words + i + line + kAhead);
    }
    a = hn::Add(a, hn::LoadU(d, words + i));
    b = hn::Add(b, hn::LoadU(d, words + i + lanes));
    c = hn::Add(c, hn::LoadU(d, words + i + 2 * lanes));
    e = hn::Add(e, hn::LoadU(d, words + i + 3 * lanes));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a, b), hn::Add(c, e))));
}

std::uint32_t sum_words_as_they_come(const std::uint32_t* words, std::int64_t count) {
  return sum_words<0>(words, count);
}
std::uint32_t sum_words_ahead(const std::uint32_t* words, std::int64_t count) {
  return sum_words<1024>(words, count);
}

/// Ten independent chains: enough for a latency of five cycles at two a cycle. Returns FLOPs done; `sink`
/// keeps them.
double multiply_add(std::int64_t rounds, float* sink) {
  const hn::CappedTag<float, 16> d;
  constexpr int kChains = 10;
  hn::Vec<decltype(d)> sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = hn::Set(d, static_cast<float>(i));
  const auto factor = hn::Set(d, 0.999F);
  const auto term = hn::Set(d, 0.001F);
  for (std::int64_t round = 0; round < rounds; ++round) {
    for (int i = 0; i < kChains; ++i) sums[i] = hn::MulAdd(sums[i], factor, term);
  }
  auto total = hn::Zero(d);
  for (int i = 0; i < kChains; ++i) total = hn::Add(total, sums[i]);
  *sink = hn::GetLane(hn::SumOfLanes(d, total));
  return 2.0 * kChains * static_cast<double>(hn::Lanes(d)) * static_cast<double>(rounds);
}

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baleen {
namespace {

HWY_EXPORT(sum_words_as_they_come);
HWY_EXPORT(sum_words_ahead);
HWY_EXPORT(multiply_add);

constexpr int kRuns = 15;

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + kRuns / 2);
  return values[kRuns / 2];
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Memory in huge pages where the system has them: with small ones translation, not memory, bounds the rate
/// (two cores of a virtual Zen 4: 36 instead of 52 GB/s; mapped checkpoints reach 51).
class HugePages {
 public:
  explicit HugePages(std::size_t size_bytes)
      : size_bytes_(size_bytes),
        data_(::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (data_ == MAP_FAILED) {
      fail("measuring the rate of reads takes {} MiB of memory, which there is not", size_bytes >> 20);
    }
    ::madvise(data_, size_bytes, MADV_HUGEPAGE);
  }
  HugePages(const HugePages&) = delete;
  HugePages& operator=(const HugePages&) = delete;
  ~HugePages() { ::munmap(data_, size_bytes_); }
  [[nodiscard]] std::uint32_t* words() const { return static_cast<std::uint32_t*>(data_); }

 private:
  std::size_t size_bytes_;
  void* data_;
};

/// The faster of two ways to read, each the median of its runs.
double measure_reads(ThreadPool& pool) {
  constexpr std::int64_t kBytes = 256 << 20;  // beyond every last-level cache
  constexpr std::int64_t kPieceBytes = 1 << 20;
  const HugePages memory(kBytes);
  std::uint32_t* words = memory.words();
  std::fill_n(words, kBytes / 4, 1u);  // an untouched page would be read from one shared zero page
  std::vector<std::uint32_t> sums(static_cast<std::size_t>(kBytes / kPieceBytes));
  const auto rate_of = [&](auto sum) {
    const auto start = std::chrono::steady_clock::now();
    pool.parallel_for(kBytes / kPieceBytes, [&](std::int64_t piece, int) {
      sums[static_cast<std::size_t>(piece)] = sum(words + piece * (kPieceBytes / 4), kPieceBytes / 4);
    });
    return kBytes / seconds_since(start);
  };
  std::vector<double> as_they_come, ahead;
  for (int run = 0; run < kRuns; ++run) {
    as_they_come.push_back(rate_of([](const std::uint32_t* piece, std::int64_t count) {
      return HWY_DYNAMIC_DISPATCH(sum_words_as_they_come)(piece, count);
    }));
    ahead.push_back(rate_of([](const std::uint32_t* piece, std::int64_t count) {
      return HWY_DYNAMIC_DISPATCH(sum_words_ahead)(piece, count);
    }));
  }
  return std::max(median(std::move(as_they_come)), median(std::move(ahead)));
}

double measure_fma(ThreadPool& pool) {
  std::vector<float> sinks(static_cast<std::size_t>(pool.num_threads()) * 64);
  std::vector<double> flops(static_cast<std::size_t>(pool.num_threads()) * 4);
  std::vector<double> rates;
  for (int run = 0; run < kRuns; ++run) {
    const auto start = std::chrono::steady_clock::now();
    pool.parallel_for(static_cast<std::int64_t>(flops.size()), [&](std::int64_t item, int thread) {
      flops[static_cast<std::size_t>(item)] =
          HWY_DYNAMIC_DISPATCH(multiply_add)(1'000'000, &sinks[static_cast<std::size_t>(thread) * 64]);
    });
    double total = 0;
    for (const double part : flops) total += part;
    rates.push_back(total / seconds_since(start));
  }
  return median(std::move(rates));
}

}  // namespace

MachineLimits measure_machine_limits(ThreadPool& pool) { return {measure_reads(pool), measure_fma(pool)}; }

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

}  // namespace baleen
#endif  // HWY_ONCE
