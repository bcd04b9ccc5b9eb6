// What messages beside other work gain: steps of data-parallel ranks on all GPUs of a host, experts split,
// weights made up; each way of running them in turn, and whether the last logits have the bits of the first
// way.
//     overlap_ranks_bench PRESET LAYERS
#include <algorithm>
#include <array>
#include <barrier>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <thread>

#include "bench/support/cuda_bench.h"
#include "comm/local_communicator.h"
#include "comm/peer/peer_memory.h"
#include "device/cuda_device.h"
#include "device/hopper_traits.h"
#include "kv_cache/sequence_pages.h"
#include "model/device_weights.h"
#include "model/forward.h"
#include "model/presets.h"
#include "model/rank_weights.h"
#include "model_files/made_up.h"

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

/// What the ranks of a run share.
struct Service {
  const ModelConfig& config;
  const WeightTree& weights;
  ParallelPlan plan;
  const PeerMemory& peers;
  LocalExchange& exchange;
  std::barrier<>& ready;
};

DeviceOptions device_options(const ModelConfig& config, std::int64_t dp) {
  const StepShape shape = step_shape(config, dp * kMaxRows, kMaxSequences, kMaxSequences, 256 * kPages);
  return {.scratch_bytes = scratch_bytes(hopper_traits(), shape),
          .max_rows = kMaxRows,
          .max_sequences = kMaxSequences,
          .max_pages = kPages,
          .two_batches = true};
}

class OverlapRank {
 public:
  OverlapRank(const Service& service, std::int64_t index)
      : service_(service),
        host_(service.exchange),
        layout_(service.config, service.plan, even_stage(service.config, 1, 0), 0, index),
        config_(rank_config(service.config, layout_.plan(), layout_.stage())),
        share_(service.config, service.weights, layout_),
        device_(static_cast<int>(index), device_options(config_, layout_.plan().dp)),
        weights_(share_.tree(), device_.memory()),
        cache_(cache_geometry(config_, Precision::kReleased), {kPages, kPages, kMaxSequences},
               device_.memory()),
        logits_(kMaxSequences * config_.vocab_size * std::int64_t{sizeof(float)}, device_.memory()) {
    device_.connect(service.peers.rank(index), host_, layout_.stage_ranks());
  }

  /// Steps of `num_rows` rows of a prompt on every rank.
  void prompts(const Way& way, std::int64_t num_rows) {
    begin(way, {.least_prompt_rows = 2});
    open(1);
    std::vector<double> times;
    for (int i = 0; i < kPromptSteps; ++i) {
      service_.ready.arrive_and_wait();
      const auto start = std::chrono::steady_clock::now();
      step(num_rows);
      device_.synchronise();
      if (i > 0) times.push_back(us_since(start));
    }
    finish(way, fmt::format("prompt of {} rows", num_rows), times);
  }

  /// Steps of a token of `num_sequences` sequences on every rank, replayed, the host a step ahead.
  void decodes(const Way& way, std::int64_t num_sequences) {
    begin(way, {.least_prompt_rows = 0, .least_decode_rows = 2});
    open(num_sequences);
    const std::int64_t at_once = kMaxRows / num_sequences;
    for (std::int64_t at = 0; at < kContext; at += at_once) step(std::min(at_once, kContext - at));
    device_.synchronise();
    forward_->capture(device_.traits().padded_rows(num_sequences), false, {});
    service_.ready.arrive_and_wait();
    std::vector<double> times;
    StepReplay& steps = device_.steps();
    auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kDecodeSteps; ++i) {
      step(1);
      steps.set_mark(i % StepReplay::kNumMarks);
      if (i == 0) continue;
      steps.wait_for((i - 1) % StepReplay::kNumMarks);
      if (i > 1) times.push_back(us_since(start));
      start = std::chrono::steady_clock::now();
    }
    device_.synchronise();
    finish(way, fmt::format("decoding {} sequences", num_sequences), times);
  }

 private:
  static double us_since(std::chrono::steady_clock::time_point start) {
    return 1e6 * std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  void begin(const Way& way, const BatchOverlap& when) {
    device_.message_lane().set_beside(way.beside);
    forward_.reset();
    arena_ = std::make_unique<Arena>(forward_buffer_bytes(config_, kMaxRows, ElementType::kBf16),
                                     device_.memory());
    forward_ = std::make_unique<Forward>(config_, weights_.tree(), device_, cache_, Precision::kReleased,
                                         kMaxRows, *arena_, layout_);
    if (way.cuts) forward_->overlap_batches(when);
    service_.ready.arrive_and_wait();
  }

  void open(std::int64_t num_sequences) {
    pages_.clear();
    for (std::int64_t i = 0; i < num_sequences; ++i) pages_.emplace_back(cache_);
    length_ = 0;
  }

  /// Queues the next `count` positions of each sequence and the logits of the last.
  void step(std::int64_t count) {
    std::vector<TokenId> tokens;
    std::vector<SequenceSlice> slices;
    for (std::size_t s = 0; s < pages_.size(); ++s) {
      if (!pages_[s].reach(length_ + count)) fail("no pages");
      slices.push_back({.first_row = std::ssize(tokens),
                        .num_tokens = count,
                        .start = length_,
                        .pages = pages_[s].pages(),
                        .window_pages = pages_[s].window_pages(),
                        .state_slot = pages_[s].state_slot()});
      const auto sequence = static_cast<std::int64_t>(s) * layout_.plan().dp + layout_.dp_index();
      for (std::int64_t i = 0; i < count; ++i)
        tokens.push_back(
            static_cast<TokenId>(((length_ + i) * 7919 + sequence * 104729) % config_.vocab_size));
    }
    const auto num_rows = std::ssize(tokens);
    const Activations<3> streams = forward_->run({.tokens = tokens, .slices = slices});
    forward_->logits(streams.slice(num_rows - 1, num_rows),
                     {logits_.data(), ElementType::kF32, {1, config_.vocab_size}});
    length_ += count;
  }

  void finish(const Way& way, const std::string& what, std::vector<double>& times) {
    std::vector<float> logits(static_cast<std::size_t>(config_.vocab_size));
    device_.memory().download(std::as_writable_bytes(std::span(logits)), logits_.data());
    if (!way.beside && !way.cuts) first_logits_ = logits;
    const bool finite = std::ranges::all_of(logits, [](float value) { return value - value == 0; });
    const char* const verdict = !finite ? "NOT FINITE" : logits == first_logits_ ? "same bits" : "OTHER BITS";
    std::ranges::sort(times);
    const Timing timing{times[times.size() / 2], times[times.size() * 3 / 4] - times[times.size() / 4]};
    for (std::int64_t rank = 0; rank < service_.plan.num_devices; ++rank) {
      service_.ready.arrive_and_wait();
      if (rank == layout_.rank())
        report(way.name,
               fmt::format("{} a rank of {} layers (rank {})", what, config_.num_hidden_layers, rank), timing,
               0, 0, verdict);
    }
    pages_.clear();
  }

  const Service& service_;
  LocalCommunicator host_;
  RankLayout layout_;
  ModelConfig config_;
  RankWeights share_;
  CudaDevice device_;
  DeviceWeights weights_;
  KvCache cache_;
  Buffer logits_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<Forward> forward_;
  std::vector<SequencePages> pages_;
  std::int64_t length_ = 0;
  std::vector<float> first_logits_;  ///< of the first way
};

void run_rank(const Service& service, std::int64_t index) {
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
}

void run(const std::string& preset, std::int64_t num_layers) {
  ModelConfig config = with_layers(preset_config(preset), num_layers);
  config.compress_ratios.resize(static_cast<std::size_t>(config.num_hidden_layers));
  config.num_nextn_predict_layers = 0;
  int count = 0;
  check_cuda(cudaGetDeviceCount(&count), "counting GPUs");
  ThreadPool pool(static_cast<int>(std::thread::hardware_concurrency()));
  const std::unique_ptr<ModelWeights> weights = made_up_weights(config, 7, pool);
  ParallelPlan plan = resolved({.num_devices = count, .dp = count, .dual_batch_overlap = true}, config);
  plan.shared_tp = 1;
  check_runnable(plan, config);
  std::vector<int> gpus(static_cast<std::size_t>(count));
  std::iota(gpus.begin(), gpus.end(), 0);
  const PeerMemory peers(gpus, kLongestWait);
  LocalExchange exchange(kLongestWait);
  std::barrier<> ready(count);
  const Service service{config, weights->tree(), plan, peers, exchange, ready};
  std::vector<std::jthread> threads;
  for (std::int64_t rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        run_rank(service, rank);
        service.ready.arrive_and_wait();
      } catch (const std::exception& error) {
        fmt::print(stderr, "rank {}: {}\n", rank, error.what());
        std::_Exit(1);
      }
    });
  }
}

}  // namespace
}  // namespace baleen::bench

int main(int count, char** values) {
  baleen::bench::run(count > 1 ? values[1] : "flash", count > 2 ? std::atoll(values[2]) : 6);
  return 0;
}
