// Experts in a stated order of sums on the host's cores, of Flash's shape, a call with six experts as a token
// has them: GB/s of weights by instruction set, rows an expert, and threads, beside what these threads read
// without computing. Verified against the specification first; experts rotate over 1 GB, so that caches do
// not help.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "hardware/instruction_sets.h"
#include "ops/experts/experts.h"
#include "ops/experts/stated_experts.h"
#include "ops/experts/stated_sums.h"

namespace baleen {
namespace {

constexpr std::int64_t kWidth = 4096, kInner = 2048;
constexpr std::int64_t kExperts = 72, kChosen = 6;
constexpr std::int64_t kCodeBytes = kWidth * kInner / 2, kScaleBytes = kWidth * kInner / 32;
constexpr std::int64_t kExpertBytes = 3 * (kCodeBytes + kScaleBytes);
constexpr std::int64_t kMaxRows = 16;

/// Experts one behind the other.
class Weights {
 public:
  Weights() : bytes_(static_cast<std::size_t>(kExperts * kExpertBytes)) {
    std::mt19937_64 random(1);
    for (std::size_t i = 0; i + 8 <= bytes_.size(); i += 8) {
      const std::uint64_t eight = random();
      std::memcpy(bytes_.data() + i, &eight, sizeof(eight));
    }
    for (std::int64_t expert = 0; expert < kExperts; ++expert) {
      std::uint8_t* at = bytes_.data() + expert * kExpertBytes;
      const auto matrix = [&](std::int64_t rows, std::int64_t cols) {
        std::uint8_t* codes = std::exchange(at, at + kCodeBytes + kScaleBytes);
        std::uint8_t* scales = codes + kCodeBytes;
        for (std::int64_t i = 0; i < kScaleBytes; ++i)
          scales[i] = static_cast<std::uint8_t>(116 + scales[i] % 6);
        return WeightMatrix{.format = WeightFormat::kFp4,
                            .rows = rows,
                            .cols = cols,
                            .data = reinterpret_cast<const std::byte*>(codes),
                            .group_scales = scales};
      };
      const WeightMatrix w1 = matrix(kInner, kWidth), w3 = matrix(kInner, kWidth);
      experts_.push_back({w1, matrix(kWidth, kInner), w3});
    }
  }

  [[nodiscard]] const ExpertWeights& expert(std::int64_t number) const {
    return experts_[static_cast<std::size_t>(number % kExperts)];
  }
  [[nodiscard]] std::span<const std::uint8_t> bytes() const { return bytes_; }

 private:
  std::vector<std::uint8_t> bytes_;
  std::vector<ExpertWeights> experts_;
};

const Weights& weights() {
  static const Weights kWeights;
  return kWeights;
}

/// Activations and outputs of calls with so many rows an expert.
struct Call {
  explicit Call(std::int64_t rows_of_expert)
      : num_rows(rows_of_expert),
        codes(static_cast<std::size_t>(num_rows * kWidth)),
        scales(static_cast<std::size_t>(kWidth / 128 * kMaxRows), 0x1p-9F),
        row_index(static_cast<std::size_t>(num_rows)),
        routing(row_index.size(), 0.3F),
        y(static_cast<std::size_t>(kChosen * num_rows * kWidth)) {
    std::mt19937 random(2);
    for (std::uint8_t& code : codes) code = static_cast<std::uint8_t>(random() % 0x70 + random() % 2 * 0x80);
    std::iota(row_index.begin(), row_index.end(), 0);
  }
  [[nodiscard]] StatedExpertRows rows(std::int64_t expert, std::int64_t slot) {
    return {.expert = &weights().expert(expert),
            .x = {codes.data(), scales.data(), kMaxRows},
            .row_index = row_index.data(),
            .weights = routing.data(),
            .num_rows = num_rows,
            .y = y.data() + slot * num_rows * kWidth};
  }

  std::int64_t num_rows;
  std::vector<std::uint8_t> codes;
  std::vector<float> scales;
  std::vector<std::int32_t> row_index;
  std::vector<float> routing;
  std::vector<Bf16Bits> y;
};

/// By the clock, and by the time that all threads together had a core: where other programs run, too.
class Rate {
 public:
  explicit Rate(benchmark::State& state) : state_(state), begin_(std::clock()) {}
  void set(std::int64_t bytes) {
    const double seconds = static_cast<double>(std::clock() - begin_) / CLOCKS_PER_SEC;
    const double all = static_cast<double>(bytes) * static_cast<double>(state_.iterations()) * 1e-9;
    state_.counters["GB/s"] = benchmark::Counter(all, benchmark::Counter::kIsRate);
    state_.counters["GB/s_a_core"] = all / seconds;
  }

 private:
  benchmark::State& state_;
  std::clock_t begin_;
};

void experts(benchmark::State& state, const std::string& instruction_set) {
  limit_instruction_set(instruction_set);
  const std::int64_t chosen = state.range(2);
  Call call(state.range(0));
  ThreadPool pool(static_cast<int>(state.range(1)));
  Arena scratch(stated_experts_scratch_bytes(chosen, chosen * call.num_rows, kWidth, kInner));
  std::vector<StatedExpertRows> entries(static_cast<std::size_t>(chosen));
  std::int64_t next = 0;
  const auto run = [&] {
    for (std::int64_t i = 0; i < chosen; ++i) entries[static_cast<std::size_t>(i)] = call.rows(next++, i);
    stated_experts(entries, 10.0F, pool, scratch);
  };
  run();
  std::vector<Bf16Bits> want(static_cast<std::size_t>(call.num_rows * kWidth));
  StatedExpertRows first = call.rows(0, 0);
  first.y = want.data();
  stated_expert_ref(first, 10.0F);
  if (!std::equal(want.begin(), want.end(), call.y.begin()))
    return state.SkipWithError("not the specified bits");
  Rate rate(state);
  for (auto _ : state) run();
  rate.set(chosen * kExpertBytes);
}

/// The same bytes: what memory gives so many threads.
void read(benchmark::State& state) {
  ThreadPool pool(static_cast<int>(state.range(0)));
  constexpr std::int64_t kPiece = 64 << 10, kBytes = kChosen * kExpertBytes, kPieces = kBytes / kPiece;
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(kPieces));
  const std::uint8_t* const bytes = weights().bytes().data();
  std::int64_t next = 0;
  Rate rate(state);
  for (auto _ : state) {
    const std::uint8_t* from = bytes + next * kBytes;
    next = (next + 1) % (kExperts / kChosen);
    pool.parallel_for(kPieces, [&](std::int64_t piece, int) {
      // A word of each cache line: memory gives whole lines.
      constexpr std::int64_t kLine = 64, kLines = 8;
      std::uint64_t words[kLines] = {};
      for (std::int64_t i = 0; i < kPiece; i += kLines * kLine) {
        for (std::int64_t line = 0; line < kLines; ++line) {
          std::uint64_t word;
          std::memcpy(&word, from + piece * kPiece + i + line * kLine, sizeof(word));
          words[line] += word;
        }
      }
      sums[static_cast<std::size_t>(piece)] = std::accumulate(words, words + kLines, std::uint64_t{0});
    });
    benchmark::DoNotOptimize(sums.data());
  }
  rate.set(kBytes);
}

/// One expert of which each thread has read a megabyte before, which is not timed.
void read_before(benchmark::State& state, const std::string& instruction_set) {
  limit_instruction_set(instruction_set);
  Call call(1);
  ThreadPool pool(static_cast<int>(state.range(0)));
  Arena scratch(stated_experts_scratch_bytes(1, 1, kWidth, kInner));
  std::int64_t next = 0;
  std::clock_t busy = 0;
  for (auto _ : state) {
    const StatedExpertRows entry = call.rows(next++, 0);
    if (state.range(1) != 0) read_stated_experts({entry.expert, 1}, pool, [] { return false; });
    const auto begin = std::chrono::steady_clock::now();
    const std::clock_t begin_busy = std::clock();
    stated_experts({&entry, 1}, 10.0F, pool, scratch);
    busy += std::clock() - begin_busy;
    state.SetIterationTime(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  const double all = static_cast<double>(kExpertBytes) * static_cast<double>(state.iterations()) * 1e-9;
  state.counters["GB/s"] = benchmark::Counter(all, benchmark::Counter::kIsRate);
  state.counters["GB/s_a_core"] = all * CLOCKS_PER_SEC / static_cast<double>(busy);
}

void register_cases() {
  const int most = default_num_threads();
  std::vector<std::int64_t> threads;
  for (int count = 1; count < most; count *= 2) threads.push_back(count);
  threads.push_back(most);
  for (const std::int64_t count : threads)
    benchmark::RegisterBenchmark("Read", read)->Args({count})->ArgNames({"threads"})->UseRealTime();
  const std::string best = available_instruction_sets().front();
  for (const std::int64_t count : threads) {
    for (const std::int64_t reads : {0, 1}) {
      benchmark::RegisterBenchmark(("ReadBefore/" + best).c_str(), read_before, best)
          ->Args({count, reads})
          ->ArgNames({"threads", "reads"})
          ->UseManualTime();
    }
  }
  for (const std::string& instruction_set : available_instruction_sets()) {
    for (const std::int64_t count : threads) {
      for (const std::int64_t num_rows : {1, 2, 4, 8, 16}) {
        benchmark::RegisterBenchmark(("StatedExperts/" + instruction_set).c_str(), experts, instruction_set)
            ->Args({num_rows, count, kChosen})
            ->ArgNames({"rows", "threads", "experts"})
            ->UseRealTime();
      }
      benchmark::RegisterBenchmark(("StatedExperts/" + instruction_set).c_str(), experts, instruction_set)
          ->Args({1, count, 1})
          ->ArgNames({"rows", "threads", "experts"})
          ->UseRealTime();
    }
  }
}

}  // namespace
}  // namespace baleen

int main(int argc, char** argv) {
  baleen::register_cases();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
