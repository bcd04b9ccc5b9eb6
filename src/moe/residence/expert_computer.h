/// Experts computed where they lie: a thread of the host answers kernels that ask for rows of experts outside
/// the GPU's memory (`HostExpertRequest`), with the same bits as the GPU's (ops/experts/stated_sums.h). It
/// spins while steps run, for a layer waits for it, and looks now and then when none has come for a while.
/// Between requests its threads read, of what is guessed for the next layer, what each of them would multiply
/// into their cores' caches.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <thread>
#include <vector>

#include "moe/residence/host_expert_rates.h"
#include "ops/experts/experts.h"
#include "ops/experts/stated_experts.h"
#include "parallel/thread_pool.h"
#include "tensor/buffer.h"

namespace baleen {

/// What the host has computed since the start.
struct HostComputeStats {
  std::uint64_t requests = 0;  ///< each for a block in a step
  double seconds = 0;          ///< between a request's arrival and its answer
  HostExpertTimes times{};     ///< kernels split experts by these now
  double fetch_seconds = 0;    ///< what an expert takes to fetch, as these say
};

class ExpertComputer {
 public:
  /// Where experts' weights are; called by the thread that answers.
  struct Source {
    std::function<ExpertWeights(std::int64_t block, std::int64_t expert, std::int32_t place)> find;
    /// Of experts on disk: before and after their weights are read; both may be empty.
    std::function<void(const ExpertWeights&)> acquire, release;
    /// The expert at a place of the host's memory; none at others. Null: nothing is read ahead.
    std::function<std::optional<ExpertWeights>(std::int32_t place)> on_host = nullptr;
  };
  /// `like`: the experts' shape. `pinned`: memory that kernels reach at the same addresses as the host does;
  /// `state`, zeroed, in theirs.
  ExpertComputer(Source source, const ExpertWeights& like, float swiglu_limit, int num_threads,
                 Memory& pinned, HostExpertState* state);
  ExpertComputer(const ExpertComputer&) = delete;
  ExpertComputer& operator=(const ExpertComputer&) = delete;
  ~ExpertComputer();

  /// For kernels of `block`.
  [[nodiscard]] ComputedExperts host(std::int64_t block) const;

  /// What experts like these take: the cores' times, which `experts` are computed for. Before `start`.
  [[nodiscard]] HostExpertTimes measure(std::span<const ExpertWeights> experts);
  /// Answers requests from now on. Kernels split by `times` until more is known.
  void start(const HostExpertTimes& times);

  /// From now on kernels split by these, whatever is seen: for tests. Any thread.
  void hold(const HostExpertTimes& times);
  /// Any thread.
  [[nodiscard]] HostComputeStats stats() const;
  /// Throws `LostDevice` when a kernel has waited for too long.
  void check() const;

  /// What a request takes beside the experts' own time: until the host has seen it, and its rows are read.
  static constexpr std::int32_t kHandOverNs = 10'000;

 private:
  [[nodiscard]] HostExpertRequest& request() const {
    return *reinterpret_cast<HostExpertRequest*>(request_.data());
  }
  [[nodiscard]] Fp8Rows tokens(std::int64_t num_tokens) const;
  void serve(const std::stop_token& stop);
  void answer();
  /// Of what is guessed for the next request, as many experts as the latest one had at most. Stops when a
  /// request comes.
  void read_ahead();
  void publish(const HostExpertTimes& times) const;
  void publish_rates();

  Source source_;
  ExpertWeights like_;
  float swiglu_limit_;
  Buffer request_;
  Buffer guess_;
  Buffer codes_, scales_, y_;
  HostExpertState* state_;
  Arena scratch_;
  ThreadPool pool_;
  std::optional<HostExpertRates> rates_;
  std::mutex publishing_;
  bool held_ = false;
  std::vector<ExpertWeights> weights_;  ///< the request's that is under way
  std::vector<StatedExpertRows> rows_;
  std::vector<ExpertWeights> guessed_;
  std::uint64_t answered_ = 0;  ///< request
  std::uint64_t read_ = 0;      ///< guess
  double latest_ns_ = 0;        ///< that the cores took for the request before
  std::atomic<std::uint64_t> num_requests_{0}, busy_ns_{0};
  std::jthread thread_;
};

}  // namespace baleen
