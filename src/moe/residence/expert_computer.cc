#include "moe/residence/expert_computer.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "numeric/block_scale.h"

namespace baleen {
namespace {

using Clock = std::chrono::steady_clock;

/// Between looks when no request has come for a while. The first one may wait so long.
constexpr std::chrono::microseconds kIdlePause{50};
/// So long after a request the next one is expected any moment: longer than what a step does elsewhere.
constexpr std::chrono::milliseconds kExpecting{50};
/// So long without a request, what is known of the cores ages.
constexpr std::chrono::milliseconds kForgetting{250};
/// Looks between looks at the clock.
constexpr int kLooks = 64;

std::uint64_t read_word(const std::uint64_t& word) {
  return std::atomic_ref(const_cast<std::uint64_t&>(word)).load(std::memory_order_acquire);
}

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

std::int64_t scale_groups(const ExpertWeights& like) { return like.w1.cols / like.w1.activation_group; }

double ns_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
}

}  // namespace

ExpertComputer::ExpertComputer(Source source, const ExpertWeights& like, float swiglu_limit, int num_threads,
                               Memory& pinned, HostExpertState* state)
    : source_(std::move(source)),
      like_(like),
      swiglu_limit_(swiglu_limit),
      request_(std::int64_t{sizeof(HostExpertRequest)}, pinned),
      guess_(std::int64_t{sizeof(HostExpertGuess)}, pinned),
      codes_(kMaxHostTokens * like.w1.cols, pinned),
      scales_(kMaxHostTokens * scale_groups(like) * std::int64_t{sizeof(float)}, pinned),
      y_(kMaxHostRows * like.w2.rows * std::int64_t{sizeof(Bf16Bits)}, pinned),
      state_(state),
      scratch_(stated_experts_scratch_bytes(kMaxExpertsOfBlock, kMaxHostRows, like.w1.cols, like.w1.rows)),
      pool_(num_threads) {
  weights_.reserve(kMaxExpertsOfBlock);
  rows_.reserve(kMaxExpertsOfBlock);
  guessed_.reserve(HostExpertGuess::kMaxExperts);
}

ExpertComputer::~ExpertComputer() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
}

ComputedExperts ExpertComputer::host(std::int64_t block) const {
  return {.request = &request(),
          .state = state_,
          .guess = source_.on_host ? reinterpret_cast<HostExpertGuess*>(guess_.data()) : nullptr,
          .codes = reinterpret_cast<std::uint8_t*>(codes_.data()),
          .scales = reinterpret_cast<float*>(scales_.data()),
          .y = reinterpret_cast<const Bf16Bits*>(y_.data()),
          .block = static_cast<std::int32_t>(block)};
}

Fp8Rows ExpertComputer::tokens(std::int64_t num_tokens) const {
  return {.codes = reinterpret_cast<std::uint8_t*>(codes_.data()),
          .scales = reinterpret_cast<float*>(scales_.data()),
          .scale_stride = host_scale_stride(static_cast<std::int32_t>(num_tokens)),
          .group = like_.w1.activation_group};
}

HostExpertTimes ExpertComputer::measure(std::span<const ExpertWeights> experts) {
  BALEEN_CHECK(!experts.empty() && !thread_.joinable());
  constexpr int kRows = 8, kRuns = 3;
  constexpr std::uint8_t kOne = 0x38;  // e4m3
  const Fp8Rows x = tokens(kRows);
  std::fill_n(x.codes, kRows * like_.w1.cols, kOne);
  std::fill_n(x.scales, x.scale_stride * scale_groups(like_), 1.0F);
  constexpr std::int32_t kTokens[kRows] = {0, 1, 2, 3, 4, 5, 6, 7};
  constexpr float kWeights[kRows] = {1, 1, 1, 1, 1, 1, 1, 1};
  const auto most = static_cast<std::size_t>(kMaxHostRows / kRows);
  const auto least_ns = [&](int num_rows) {
    rows_.clear();
    auto* y = reinterpret_cast<Bf16Bits*>(y_.data());
    for (const ExpertWeights& expert : experts.first(std::min(experts.size(), most))) {
      rows_.push_back({&expert, x, kTokens, kWeights, num_rows, y});
      y += num_rows * like_.w2.rows;
    }
    double least = 0;
    for (int run = 0; run < kRuns; ++run) {
      const Clock::time_point begin = Clock::now();
      stated_experts(rows_, swiglu_limit_, pool_, scratch_);
      const double ns = ns_since(begin) / static_cast<double>(rows_.size());
      least = run == 0 ? ns : std::min(least, ns);
    }
    return least;
  };
  const double one = least_ns(1), several = least_ns(kRows);
  return {.compute_expert = static_cast<std::uint32_t>(std::min(one, 4e9)),
          .compute_row = static_cast<std::uint32_t>(std::clamp((several - one) / (kRows - 1), 0.0, 4e9)),
          .hand_over = kHandOverNs};
}

void ExpertComputer::publish(const HostExpertTimes& times) const {
  static_assert(sizeof(HostExpertTimes) == 2 * sizeof(std::uint64_t));
  // Kernels read words that were written at different times, if need be: any of them will do.
  std::uint64_t words[2];
  std::memcpy(words, &times, sizeof(times));
  auto* to = reinterpret_cast<std::uint64_t*>(&request().times);
  for (int i = 0; i < 2; ++i) std::atomic_ref(to[i]).store(words[i], std::memory_order_relaxed);
}

void ExpertComputer::hold(const HostExpertTimes& times) {
  const std::scoped_lock lock(publishing_);
  held_ = true;
  publish(times);
}

void ExpertComputer::publish_rates() {
  const std::scoped_lock lock(publishing_);
  if (!held_) publish(rates_->times());
}

void ExpertComputer::start(const HostExpertTimes& times) {
  rates_.emplace(times);
  publish(times);
  thread_ = std::jthread([this](const std::stop_token& stop) { serve(stop); });
}

HostComputeStats ExpertComputer::stats() const {
  HostExpertTimes times;
  std::uint64_t words[2];
  auto* from = reinterpret_cast<std::uint64_t*>(&request().times);
  for (int i = 0; i < 2; ++i) words[i] = std::atomic_ref(from[i]).load(std::memory_order_relaxed);
  std::memcpy(&times, words, sizeof(times));
  return {.requests = num_requests_, .seconds = 1e-9 * static_cast<double>(busy_ns_.load()), .times = times};
}

void ExpertComputer::check() const {
  if (read_word(request().given_up) == 0) return;
  throw LostDevice(
      "a step waited too long for experts that the host's cores compute; is the machine out of memory, or "
      "the disk with the checkpoint gone? Nothing computed since is valid, start again");
}

void ExpertComputer::serve(const std::stop_token& stop) {
  answered_ = read_word(request().answered);
  Clock::time_point latest = Clock::now() - kExpecting;
  while (!stop.stop_requested()) {
    const std::uint64_t posted = read_word(request().posted);
    if (posted != answered_) {
      const Clock::time_point begin = Clock::now();
      answer();
      std::atomic_ref(request().answered).store(posted, std::memory_order_release);
      answered_ = posted;
      latest = Clock::now();
      busy_ns_ += static_cast<std::uint64_t>(ns_since(begin));
      ++num_requests_;
      publish_rates();
    } else if (const auto idle = Clock::now() - latest; idle < kExpecting) {
      read_ahead();
      for (int i = 0; i < kLooks && read_word(request().posted) == answered_; ++i) pause_briefly();
    } else {
      std::this_thread::sleep_for(kIdlePause);
      if (idle < kForgetting) continue;
      latest = Clock::now() - kExpecting;
      rates_->not_computed();
      publish_rates();
    }
  }
}

void ExpertComputer::read_ahead() {
  if (!source_.on_host) return;
  const auto& guess = *reinterpret_cast<const HostExpertGuess*>(guess_.data());
  const std::uint64_t posted = read_word(guess.posted);
  if (posted == read_) return;
  read_ = posted;
  const std::int64_t count =
      std::min({std::ssize(rows_), std::int64_t{guess.count}, std::int64_t{HostExpertGuess::kMaxExperts}});
  guessed_.clear();
  for (std::int64_t i = 0; i < count; ++i) {
    if (const auto expert = source_.on_host(guess.places[i])) guessed_.push_back(*expert);
  }
  read_stated_experts(guessed_, pool_, [this] { return read_word(request().posted) != answered_; });
}

void ExpertComputer::answer() {
  const HostExpertRequest& asked = request();
  const Clock::time_point begin = Clock::now();
  const Fp8Rows x = tokens(asked.num_tokens);
  auto* const y = reinterpret_cast<Bf16Bits*>(y_.data());
  weights_.clear();
  rows_.clear();
  // The last ones first, which have been read ahead, before others take their room in the caches.
  for (std::int32_t i = asked.num_experts - 1; i >= 0; --i) {
    const std::int32_t first = asked.first_rows[i];
    weights_.push_back(source_.find(asked.block, asked.experts[i], asked.places[i]));
    if (asked.places[i] < 0 && source_.acquire) source_.acquire(weights_.back());
    rows_.push_back({.expert = &weights_.back(),
                     .x = x,
                     .row_index = asked.tokens + first,
                     .weights = asked.weights + first,
                     .num_rows = asked.first_rows[i + 1] - first,
                     .y = y + first * like_.w2.rows});
  }
  stated_experts(rows_, swiglu_limit_, pool_, scratch_);
  bool any_on_disk = false;
  for (std::int32_t i = 0; i < asked.num_experts; ++i) {
    if (asked.places[i] >= 0) continue;
    any_on_disk = true;
    if (source_.release) source_.release(weights_[static_cast<std::size_t>(asked.num_experts - 1 - i)]);
  }
  // What a disk takes says nothing of the cores.
  const double taken_ns = ns_since(begin);
  if (!any_on_disk) rates_->computed(asked.num_experts, asked.first_rows[asked.num_experts], taken_ns);
  if (asked.gpu_ns > 0) {
    const double gpu_ns = asked.gpu_ns;
    rates_->beside_fetch(gpu_ns - (asked.fetch_pieces > 0 ? asked.fetch_ns : 0));
    if (asked.wait_ns > 0) rates_->handed_over(gpu_ns + asked.wait_ns - latest_ns_);
  }
  latest_ns_ = taken_ns;
  if (asked.fetch_pieces > 0) {
    rates_->fetched(asked.fetch_pieces, asked.fetch_ns);
  } else {
    rates_->not_fetched();
  }
}

}  // namespace baleen
