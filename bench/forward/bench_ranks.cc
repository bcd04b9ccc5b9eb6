#include "bench_ranks.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <thread>

#include "device/device_choice.h"
#include "device/sm90/kernels.h"
#include "model/cache_geometry.h"
#include "model/presets.h"
#include "model_files/made_up.h"

namespace baleen::bench {

ModelConfig layers_of(std::string_view preset, std::int64_t num_layers) {
  ModelConfig config = preset_config(std::string(preset));
  if (num_layers > 0) config = with_layers(std::move(config), num_layers);
  config.compress_ratios.resize(static_cast<std::size_t>(config.num_hidden_layers));
  config.num_nextn_predict_layers = 0;
  return config;
}

int count_gpus(int least) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) count = 0;
  if (count < least) fail("this needs {} GPUs or more; here are {}", least, count);
  return count;
}

int status_of(const std::function<void()>& run) {
  try {
    run();
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}

void run_ranks(const ModelConfig& config, const ParallelPlan& plan, bool by_nccl,
               std::chrono::seconds longest_wait,
               const std::function<void(const BenchService&, std::int64_t)>& run_rank) {
  check_runnable(plan, config);
  ThreadPool pool(static_cast<int>(std::thread::hardware_concurrency()));
  const std::unique_ptr<ModelWeights> weights = made_up_weights(config, 7, pool);
  std::vector<int> gpus(static_cast<std::size_t>(plan.num_devices));
  std::iota(gpus.begin(), gpus.end(), 0);
  std::optional<PeerMemory> peers;
  if (gpus.size() > 1 && !by_nccl) peers.emplace(gpus, longest_wait);
  LocalExchange exchange(longest_wait);
  std::barrier<> ready(plan.num_devices);
  const BenchService service{config, weights->tree(), plan, peers ? &*peers : nullptr, exchange, ready};
  std::vector<std::jthread> threads;
  for (std::int64_t rank = 0; rank < plan.num_devices; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        run_rank(service, rank);
      } catch (const std::exception& error) {
        fmt::print(stderr, "rank {}: {}\n", rank, error.what());
        std::_Exit(1);
      }
    });
  }
}

Timing timing_of(std::vector<double> times) {
  std::ranges::sort(times);
  return {times[times.size() / 2], times[times.size() * 3 / 4] - times[times.size() / 4]};
}

BenchRank::BenchRank(const BenchService& service, const RankLayout& layout, const DeviceOptions& options)
    : layout_(layout),
      config_(rank_config(service.config, layout.plan(), layout.stage())),
      max_rows_(options.max_rows),
      share_(service.config, service.weights, layout_),
      device_(static_cast<int>(layout.rank()), planned_gpu().architecture->traits, sm90::kernels(), options),
      weights_(share_.tree(), device_.memory()),
      cache_(cache_geometry(config_, Precision::kReleased),
             {options.max_pages, options.max_pages, options.max_sequences}, device_.memory()),
      logits_(config_.model().vocab_size * std::int64_t{sizeof(float)}, device_.memory()) {
  renew_forward();
}

void BenchRank::renew_forward() {
  forward_.reset();
  arena_ =
      std::make_unique<Arena>(forward_buffer_bytes(config_, max_rows_, ElementType::kBf16), device_.memory());
  forward_ = std::make_unique<Forward>(config_, weights_.tree(), device_, cache_, Precision::kReleased,
                                       max_rows_, *arena_, layout_);
}

void BenchRank::open(std::int64_t count, std::int64_t first, std::int64_t every) {
  pages_.clear();
  for (std::int64_t i = 0; i < count; ++i) pages_.emplace_back(cache_);
  first_ = first;
  every_ = every;
  length_ = 0;
}

void BenchRank::step(std::int64_t count) {
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
    const std::int64_t sequence = first_ + static_cast<std::int64_t>(s) * every_;
    for (std::int64_t i = 0; i < count; ++i)
      tokens.push_back(
          static_cast<TokenId>(((length_ + i) * 7919 + sequence * 104729) % config_.model().vocab_size));
  }
  const auto num_rows = std::ssize(tokens);
  const Activations<3> streams = forward_->run({.tokens = tokens, .slices = slices});
  forward_->logits(streams.slice(num_rows - 1, num_rows), {},
                   {logits_.data(), ElementType::kF32, {1, config_.model().vocab_size}});
  length_ += count;
}

std::vector<float> BenchRank::logits() {
  std::vector<float> values(static_cast<std::size_t>(config_.model().vocab_size));
  device_.memory().download(std::as_writable_bytes(std::span(values)), logits_.data());
  return values;
}

}  // namespace baleen::bench
