#include "rank_engine/thread_team.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "parallel/memory_nodes.h"

namespace baleen {

struct ThreadTeam::State {
  State(std::shared_ptr<const ModelWeights> model, EngineOptions engine_options)
      : weights(std::move(model)),
        options(std::move(engine_options)),
        exchange(options.longest_wait),
        peers(options.messages == GpuMessages::kNccl
                  ? nullptr
                  : make_peer_memory(options.rank_devices, options.messages, options.longest_wait)),
        workers(static_cast<std::size_t>(options.parallel.num_devices)),
        replies(workers.size()),
        busy(workers.size(), true) {}

  const std::shared_ptr<const ModelWeights> weights;
  const EngineOptions options;
  LocalExchange exchange;
  const std::shared_ptr<DevicePeers> peers;  ///< connects GPUs that exchange messages through it
  const std::shared_ptr<SharedEngramTables> host_tables = std::make_shared<SharedEngramTables>();

  std::mutex mutex;
  std::condition_variable changed;
  // Under the mutex. Workers and replies are the driver's while no rank is busy, a rank's own while it is.
  std::vector<RankWorker*> workers;
  std::vector<RankReply> replies;
  std::vector<bool> busy;
  const RankCall* call = nullptr;
  std::int64_t num_calls = 0;
  bool ends = false;
  std::string lost;  ///< why; empty: nothing is
};

ThreadTeam::ThreadTeam(std::shared_ptr<const ModelWeights> weights, const EngineOptions& options,
                       const Connect& connect)
    : state_(std::make_shared<State>(std::move(weights), options)) {
  const Connect own = connect ? connect : [](std::int64_t /*rank*/, LocalExchange& exchange) {
    return std::make_unique<LocalCommunicator>(exchange);
  };
  for (std::int64_t rank = 0; rank < options.parallel.num_devices; ++rank) {
    threads_.emplace_back([state = state_, rank, own] { run_rank(state, rank, own); });
  }
  // Without a limit: cutting weights takes as long as they are large.
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return std::ranges::count(state_->busy, true) == 0; });
  if (state_->lost.empty()) return;
  state_->ends = true;
  state_->changed.notify_all();
  lock.unlock();
  for (std::thread& thread : threads_) thread.join();
  fail("{}", state_->lost);
}

ThreadTeam::~ThreadTeam() {
  std::unique_lock lock(state_->mutex);
  state_->ends = true;
  state_->changed.notify_all();
  const bool all_there = std::ranges::count(state_->busy, true) == 0;
  lock.unlock();
  for (std::thread& thread : threads_) {
    if (!thread.joinable()) continue;
    if (all_there) {
      thread.join();
    } else {
      thread.detach();  // a rank that is stuck cannot be ended; what it uses stays with it
    }
  }
}

void ThreadTeam::run_rank(const std::shared_ptr<State>& state, std::int64_t rank, const Connect& connect) {
  State& s = *state;
  const auto place = static_cast<std::size_t>(rank);
  std::unique_lock lock(s.mutex, std::defer_lock);
  try {
    const std::unique_ptr<Communicator> communicator = connect(rank, s.exchange);
    const std::int64_t num_ranks = s.options.parallel.num_devices;
    // Before the worker, whose memory lies near the thread that first touches it. GPUs have nodes of their
    // own.
    if (s.options.rank_devices.empty()) stay_on_nodes(memory_nodes(), rank, num_ranks);
    const std::shared_ptr<DevicePeers> peers =
        s.options.messages == GpuMessages::kNccl
            ? join_by_nccl(s.options.rank_devices[place], rank, num_ranks, *communicator,
                           s.options.longest_wait)
            : s.peers;
    RankWorker worker(s.weights, options_of_rank(s.options, num_ranks, rank),
                      layout_of_rank(s.weights->config(), s.options.parallel, rank), *communicator,
                      peers == nullptr ? nullptr : peers->rank(rank), s.host_tables);
    lock.lock();
    s.workers[place] = &worker;
    for (std::int64_t seen = 0;;) {
      s.busy[place] = false;
      s.changed.notify_all();
      s.changed.wait(lock, [&] { return s.ends || s.num_calls > seen; });
      if (s.ends) break;
      seen = s.num_calls;
      const RankCall& call = *s.call;
      lock.unlock();
      RankReply reply = answer(worker, call);
      lock.lock();
      s.replies[place] = std::move(reply);
    }
    s.workers[place] = nullptr;
  } catch (const std::exception& error) {
    if (!lock.owns_lock()) lock.lock();
    s.workers[place] = nullptr;
    s.busy[place] = false;
    // The first one says why; the others fail because it did.
    const std::string name = fmt::format("rank {} ", rank), what = error.what();
    if (s.lost.empty()) s.lost = what.starts_with(name) ? what : fmt::format("{}failed: {}", name, what);
    s.changed.notify_all();
    const std::string lost = s.lost;
    lock.unlock();
    s.exchange.stop(lost);
  }
}

void ThreadTeam::wait_for_all() {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  const auto all_done = [&] { return std::ranges::count(s.busy, true) == 0; };
  // A pass takes as long as it takes; but once one rank is done, the others are not far behind. One that
  // waits for a stuck rank says so itself within `longest_wait`; twice that, and only the stuck one is left.
  s.changed.wait(lock, [&] { return std::ranges::count(s.busy, false) > 0; });
  const bool in_time =
      s.changed.wait_for(lock, 2 * s.options.longest_wait, [&] { return all_done() || !s.lost.empty(); });
  if (!in_time) {
    const auto stuck = std::ranges::find(s.busy, true) - s.busy.begin();
    s.lost = fmt::format("rank {} is {} ms behind the first that was done; it may be stuck", stuck,
                         2 * s.options.longest_wait.count());
  }
  if (s.lost.empty()) return;
  s.exchange.stop(s.lost);
  // The others learn of it where they wait for messages. One that computes is given as long as a message.
  s.changed.wait_for(lock, s.options.longest_wait, all_done);
  throw LostRanks(s.lost);
}

const std::vector<RankReply>& ThreadTeam::call(const RankCall& call) {
  State& s = *state_;
  {
    const std::scoped_lock lock(s.mutex);
    if (!s.lost.empty()) throw LostRanks(s.lost);
    std::ranges::fill(s.replies, RankReply());
    if (call.is_collective()) {
      s.call = &call;
      ++s.num_calls;
      s.busy.assign(s.busy.size(), true);
      s.changed.notify_all();
    }
  }
  if (call.is_collective()) {
    wait_for_all();
    return s.replies;
  }
  // The ranks wait for a call: what needs no messages is done here, which spares them to wake up.
  for (std::size_t rank = 0; rank < s.workers.size(); ++rank) {
    RankWorker& worker = *s.workers[rank];
    if (call.group == RankCall::kAllGroups || call.group == worker.layout().dp_index())
      s.replies[rank] = answer(worker, call);
  }
  return s.replies;
}

RankWorker& ThreadTeam::first() { return *state_->workers.front(); }

std::string ThreadTeam::place() const {
  return fmt::format("{} ranks as threads of this process{}", state_->workers.size(),
                     messages_text(state_->options));
}

std::int64_t ThreadTeam::copied_weight_bytes() const {
  std::int64_t sum = 0;
  for (const RankWorker* worker : state_->workers) sum += worker->copied_weight_bytes();
  return sum;
}

}  // namespace baleen
