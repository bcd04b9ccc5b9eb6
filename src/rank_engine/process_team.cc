#include "rank_engine/process_team.h"

#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <utility>

#include "base/check.h"
#include "base/file.h"
#include "base/interrupt_flag.h"
#include "log/log.h"
#include "model/identity.h"

namespace baleen {
namespace {

constexpr int kGreetingTag = 1, kVerdictTag = 2, kCallTag = 3, kReplyTag = 4, kSignalTag = 5;

/// How often the first rank looks whether another one got a signal.
constexpr auto kBetweenLooks = std::chrono::milliseconds(100);

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }
std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string table_identity(const ExpertTable* table) {
  if (table == nullptr) return "none";
  std::uint64_t hash = 0;
  for (const std::vector<std::int32_t>& slots : *table)
    hash = XXH3_64bits_withSeed(slots.data(), slots.size() * sizeof(std::int32_t), hash);
  return fmt::format("{:016x}", hash);
}

/// What ranks must have in common, each with the name of what differs where it does.
std::vector<std::pair<std::string, std::string>> terms(const ModelWeights& weights,
                                                       const EngineOptions& options) {
  const std::string program = read_text_file("/proc/self/exe");
  return {{"another program (version or build)",
           fmt::format("{:016x}", XXH3_64bits(program.data(), program.size()))},
          {"another checkpoint", sampled_identity(weights.checkpoint())},
          {"another plan", to_text(options.parallel)},
          {"other options",
           fmt::format("precision {}, {} tokens a step, {} logit rows, {} sequences, {} "
                       "positions, {} drafts{}{}, {} window pages, {} reserved tails, two micro-batches from "
                       "{} and {} rows{}",
                       precision_name(options.precision), options.max_batch_tokens, options.max_logit_rows,
                       options.max_sequences, options.cache_tokens, options.max_draft_tokens,
                       options.drafts ? ", drafts" : "", options.prefix_cache ? ", prefix cache" : "",
                       options.cached_window_pages, options.reserved_tails, options.overlap.least_prompt_rows,
                       options.overlap.least_decode_rows, messages_text(options))},
          {"another expert map", table_identity(options.expert_table.get())}};
}

/// The sentence about `rank`; empty where it agrees with the first rank.
std::string difference(const std::string& first_ranks, const ModelWeights& weights,
                       const EngineOptions& options, std::int64_t rank) {
  std::string_view rest = first_ranks;
  for (const auto& [name, own] : terms(weights, options)) {
    const std::string_view want = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), want.size() + 1));
    if (want == own) continue;
    return fmt::format(
        "rank {} has {}: {}, where rank 0 has {}; start all ranks with the same program, model and options",
        rank, name, own, want);
  }
  return "";
}

void check_size(const MpiWorld& world, const EngineOptions& options) {
  if (world.size() == options.parallel.num_devices) return;
  fail("{} processes were started, but the plan has {} ranks ({}): each process is one rank", world.size(),
       options.parallel.num_devices, to_text(options.parallel));
}

/// A GPU's way to those of the other processes; null: ranks are on processors.
std::shared_ptr<DevicePeers> join(const EngineOptions& options, MpiCommunicator& communicator) {
  if (options.rank_devices.empty()) return nullptr;
  const std::int64_t rank = communicator.world().rank(), num_ranks = communicator.world().size();
  const DeviceChoice& device = options.rank_devices[static_cast<std::size_t>(rank)];
  if (options.messages == GpuMessages::kNccl)
    return join_by_nccl(device, rank, num_ranks, communicator, options.longest_wait);
  if (options.messages == GpuMessages::kHostMemory)
    fail("‹messages› host-memory: is for ranks of one process; leave out mpirun, or ‹messages› nccl");
  return join_peer_processes(device, rank, num_ranks, communicator, options.longest_wait);
}

/// On which machine how many processes are is not known: threads are said, or divided among all.
std::unique_ptr<RankWorker> make_worker(std::shared_ptr<const ModelWeights> weights,
                                        const EngineOptions& options, MpiCommunicator& communicator,
                                        const DevicePeers* peers) {
  const std::int64_t rank = communicator.world().rank(), num_ranks = options.parallel.num_devices;
  RankLayout layout = layout_of_rank(weights->config(), options.parallel, rank);
  return std::make_unique<RankWorker>(std::move(weights), options_of_rank(options, num_ranks, rank),
                                      std::move(layout), communicator,
                                      peers == nullptr ? nullptr : peers->rank(rank));
}

}  // namespace

ProcessTeam::ProcessTeam(std::shared_ptr<MpiWorld> world, std::shared_ptr<const ModelWeights> weights,
                         const EngineOptions& options)
    : communicator_(std::move(world), options.longest_wait),
      num_ranks_(options.parallel.num_devices),
      of_passes_(static_cast<std::size_t>(num_ranks_)),
      of_others_(of_passes_.size()),
      replies_(of_passes_.size()) {
  check_size(communicator_.world(), options);
  std::string greeting;
  for (const auto& [name, own] : terms(*weights, options)) greeting += own + "\n";
  for (std::int64_t rank = 1; rank < num_ranks_; ++rank)
    communicator_.send(rank, kGreetingTag, bytes_of(greeting));
  for (std::int64_t rank = 1; rank < num_ranks_; ++rank) {
    const std::string verdict = text_of(communicator_.receive(rank, kVerdictTag, false));
    if (verdict.empty()) continue;
    communicator_.stop_others(verdict);
    fail("{}", verdict);
  }
  peers_ = join(options, communicator_);
  worker_ = make_worker(std::move(weights), options, communicator_, peers_.get());
  listener_ = std::jthread([this](const std::stop_token& stop) { listen(stop); });
}

void ProcessTeam::listen(const std::stop_token& stop) {
  const auto any_signal = [this] {
    for (std::int64_t rank = 1; rank < num_ranks_; ++rank) {
      if (communicator_.world().waiting_bytes(rank, kSignalTag) < 0) continue;
      log_line("baleen: rank {} got a signal to end: all ranks end", rank);
      return true;
    }
    return false;
  };
  try {
    while (!any_signal()) {
      if (stop.stop_requested()) return;
      std::this_thread::sleep_for(kBetweenLooks);
    }
  } catch (const std::exception&) {
    return;  // whoever waits for ranks that are lost says so
  }
  if (worker_->options().asked_to_end) {
    worker_->options().asked_to_end();
  } else {
    ::kill(::getpid(), SIGTERM);
  }
}

ProcessTeam::~ProcessTeam() {
  listener_ = {};
  if (!lost_.empty()) return;
  try {
    call_all({calls::End{}});
    if (peers_) peers_->leave();
    // NCCL may wait for the others to leave it, and MPI for them to end: one after the other, on all ranks.
    worker_.reset();
    peers_ = {};
    communicator_.world().finalize();
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): they are ended with this process
  }
}

void ProcessTeam::call_all(const RankCall& call) {
  const std::vector<std::byte> bytes = to_bytes(call);
  for (std::int64_t rank = 1; rank < num_ranks_; ++rank) communicator_.send(rank, kCallTag, bytes);
}

const std::vector<RankReply>& ProcessTeam::call(const RankCall& call) {
  if (!lost_.empty()) throw LostRanks(lost_);
  try {
    call_all(call);
    std::ranges::fill(replies_, RankReply());
    if (call.group <= 0) replies_.front() = answer(*worker_, call);
    std::vector<ReceivedReply>& received = call.is_collective() ? of_passes_ : of_others_;
    for (std::int64_t rank = 1; rank < num_ranks_; ++rank) {
      const auto place = static_cast<std::size_t>(rank);
      received[place] = reply_from_bytes(communicator_.receive(rank, kReplyTag));
      replies_[place] = received[place].reply;
    }
    return replies_;
  } catch (const std::exception& error) {
    const std::string what = error.what();
    lost_ = what.starts_with("rank ") ? what : "rank 0 failed: " + what;
    communicator_.stop_others(lost_);
    throw LostRanks(lost_);
  }
}

std::string ProcessTeam::place() const {
  return fmt::format("{} ranks as processes{}", num_ranks_, messages_text(worker_->options()));
}

void ProcessTeam::follow(const std::shared_ptr<MpiWorld>& world, std::shared_ptr<const ModelWeights> weights,
                         const EngineOptions& options) {
  // As the first rank, this one ends when the first does; a signal that comes here is passed on to it. The
  // command may have blocked them for a thread of its own, which is only begun once an engine is open.
  InterruptFlag interrupt({SIGINT, SIGTERM, SIGHUP});
  sigset_t unblocked;
  sigemptyset(&unblocked);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&unblocked, signal);
  pthread_sigmask(SIG_UNBLOCK, &unblocked, nullptr);
  check_size(*world, options);
  MpiCommunicator communicator(world, options.longest_wait);
  const std::int64_t rank = world->rank();
  const std::string verdict =
      difference(text_of(communicator.receive(0, kGreetingTag, false)), *weights, options, rank);
  communicator.send(0, kVerdictTag, bytes_of(verdict));
  if (!verdict.empty()) fail("{}", verdict);
  try {
    const std::shared_ptr<DevicePeers> peers = join(options, communicator);
    const std::unique_ptr<RankWorker> worker =
        make_worker(std::move(weights), options, communicator, peers.get());
    // A signal is passed on once: the first rank then ends all.
    bool passed_on = false;
    const auto pass_on = [&] {
      if (!interrupt.raised() || std::exchange(passed_on, true)) return;
      communicator.send(0, kSignalTag, {});
    };
    while (true) {
      const ReceivedCall received = call_from_bytes(communicator.receive(0, kCallTag, false, pass_on));
      const RankCall& call = received.call;
      if (std::holds_alternative<calls::End>(call.what)) break;
      const bool is_called = call.group == RankCall::kAllGroups || call.group == worker->layout().dp_index();
      communicator.send(0, kReplyTag, to_bytes(is_called ? answer(*worker, call) : RankReply()));
    }
    if (peers) peers->leave();
  } catch (const std::exception& error) {
    const std::string name = fmt::format("rank {} ", rank), what = error.what();
    communicator.stop_others(what.starts_with("rank ") ? what : name + "failed: " + what);
    throw;
  }
  world->finalize();
  throw FollowedToTheEnd();
}

}  // namespace baleen
