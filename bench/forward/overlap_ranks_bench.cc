// What messages beside other work gain: steps of data-parallel ranks on all GPUs of a host, experts split,
// weights made up; each way of running them in turn, and whether the last logits have the bits of the first
// way.
//     overlap_ranks_bench PRESET LAYERS
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>

#include "bench_ranks.h"
#include "device/device_choice.h"

namespace baleen::bench {
namespace {

constexpr std::int64_t kMaxRows = 8192, kMaxSequences = 64, kContext = 1024;
constexpr int kPromptSteps = 5, kDecodeSteps = 40;
constexpr std::chrono::seconds kLongestWait{60};
constexpr std::int64_t kPages =
    std::max((kPromptSteps + 1) * kMaxRows / 256, kMaxSequences*(kContext / 256 + 1));

/// A way to run steps.
struct Way {
  const char* name;
  bool beside = false;  ///< messages beside other work; else everything in the order of the calls
  bool cuts = false;    ///< into two micro-batches
};

DeviceOptions device_options(const RankConfig& rank, std::int64_t dp) {
  const StepShape shape = step_shape(rank, dp * kMaxRows, kMaxSequences, kMaxSequences, 256 * kPages);
  return {.scratch_bytes = scratch_bytes(planned_gpu().architecture->traits, shape),
          .max_rows = kMaxRows,
          .max_sequences = kMaxSequences,
          .max_pages = kPages,
          .two_batches = true};
}

class OverlapRank {
 public:
  OverlapRank(const BenchService& service, std::int64_t index)
      : service_(service),
        host_(service.exchange),
        layout_(service.config, service.plan, even_stage(service.config, 1, 0), 0, index),
        rank_(
            service, layout_,
            device_options(rank_config(service.config, layout_.plan(), layout_.stage()), layout_.plan().dp)) {
    rank_.device().connect(service.peers->rank(index), host_, layout_.stage_ranks());
  }

  /// Steps of `num_rows` rows of a prompt on every rank.
  void prompts(const Way& way, std::int64_t num_rows) {
    begin(way, {.least_prompt_rows = 2});
    open(1);
    std::vector<double> times;
    for (int i = 0; i < kPromptSteps; ++i) {
      service_.ready.arrive_and_wait();
      const auto start = std::chrono::steady_clock::now();
      rank_.step(num_rows);
      rank_.device().synchronise();
      if (i > 0) times.push_back(us_since(start));
    }
    finish(way, fmt::format("prompt of {} rows", num_rows), times);
  }

  /// Steps of a token of `num_sequences` sequences on every rank, replayed, the host a step ahead.
  void decodes(const Way& way, std::int64_t num_sequences) {
    begin(way, {.least_prompt_rows = 0, .least_decode_rows = 2});
    open(num_sequences);
    const std::int64_t at_once = kMaxRows / num_sequences;
    for (std::int64_t at = 0; at < kContext; at += at_once) rank_.step(std::min(at_once, kContext - at));
    rank_.device().synchronise();
    rank_.forward().capture(rank_.device().traits().padded_rows(num_sequences));
    service_.ready.arrive_and_wait();
    std::vector<double> times;
    StepReplay& steps = rank_.device().steps();
    auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kDecodeSteps; ++i) {
      rank_.step(1);
      steps.set_mark(i % StepReplay::kNumMarks);
      if (i == 0) continue;
      steps.wait_for((i - 1) % StepReplay::kNumMarks);
      if (i > 1) times.push_back(us_since(start));
      start = std::chrono::steady_clock::now();
    }
    rank_.device().synchronise();
    finish(way, fmt::format("decoding {} sequences", num_sequences), times);
  }

 private:
  static double us_since(std::chrono::steady_clock::time_point start) {
    return 1e6 * std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  void begin(const Way& way, const BatchOverlap& when) {
    rank_.device().message_lane().set_beside(way.beside);
    rank_.renew_forward();
    if (way.cuts) rank_.forward().overlap_batches(when);
    service_.ready.arrive_and_wait();
  }

  void open(std::int64_t num_sequences) { rank_.open(num_sequences, layout_.dp_index(), layout_.plan().dp); }

  void finish(const Way& way, const std::string& what, const std::vector<double>& times) {
    const std::vector<float> logits = rank_.logits();
    if (!way.beside && !way.cuts) first_logits_ = logits;
    const bool finite = std::ranges::all_of(logits, [](float value) { return value - value == 0; });
    const char* const verdict = !finite ? "NOT FINITE" : logits == first_logits_ ? "same bits" : "OTHER BITS";
    const Timing timing = timing_of(times);
    for (std::int64_t rank = 0; rank < service_.plan.num_devices; ++rank) {
      service_.ready.arrive_and_wait();
      if (rank == layout_.rank())
        report(way.name,
               fmt::format("{} a rank of {} layers (rank {})", what, rank_.config().num_hidden_layers, rank),
               timing, 0, 0, verdict);
    }
    rank_.close();
  }

  const BenchService& service_;
  LocalCommunicator host_;
  RankLayout layout_;
  BenchRank rank_;
  std::vector<float> first_logits_;  ///< of the first way
};

void run_rank(const BenchService& service, std::int64_t index) {
  OverlapRank rank(service, index);
  service.ready.arrive_and_wait();
  const std::array<Way, 4> ways{{{"in order"},
                                 {"shared expert beside dispatch", true},
                                 {"two micro-batches in order", false, true},
                                 {"two micro-batches, messages beside", true, true}}};
  rank.prompts(ways.front(), kMaxRows);  // loads kernels
  for (const std::int64_t num_rows : {8192, 4096, 2048, 1024}) {
    for (const Way& way : ways) rank.prompts(way, num_rows);
  }
  for (const std::int64_t num_sequences : {32, 64}) {
    for (const Way& way : ways) rank.decodes(way, num_sequences);
  }
  service.ready.arrive_and_wait();
}

void run(const std::string& preset, std::int64_t num_layers) {
  const ModelConfig config = layers_of(preset, num_layers);
  const int count = count_gpus(2);
  ParallelPlan plan = resolved({.num_devices = count, .dp = count, .dual_batch_overlap = true}, config);
  plan.shared_tp = 1;
  run_ranks(config, plan, false, kLongestWait, run_rank);
}

}  // namespace
}  // namespace baleen::bench

int main(int count, char** values) {
  return baleen::bench::status_of(
      [&] { baleen::bench::run(count > 1 ? values[1] : "flash", count > 2 ? std::atoll(values[2]) : 6); });
}
