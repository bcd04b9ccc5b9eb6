/// Ranks as threads of this process: each has its worker, with its share of the processors, and all read the
/// weights of one mapped checkpoint.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "comm/local_communicator.h"
#include "model/weights.h"
#include "rank_engine/rank_team.h"

namespace baleen {

class ThreadTeam final : public RankTeam {
 public:
  /// How a rank reaches the others; tests put faults between.
  using Connect = std::function<std::unique_ptr<Communicator>(std::int64_t rank, LocalExchange& exchange)>;

  /// `options` resolved. Returns when all ranks have their workers; throws what keeps one from it.
  ThreadTeam(std::shared_ptr<const ModelWeights> weights, const EngineOptions& options,
             const Connect& connect = {});
  /// Waits for the ranks; one that is stuck is left behind.
  ~ThreadTeam() override;
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  [[nodiscard]] const std::vector<RankReply>& call(const RankCall& call) override;
  [[nodiscard]] RankWorker& first() override;
  [[nodiscard]] std::string place() const override;
  [[nodiscard]] std::int64_t copied_weight_bytes() const override;

 private:
  /// Shared with the threads, which may outlive the team.
  struct State;
  static void run_rank(const std::shared_ptr<State>& state, std::int64_t rank, const Connect& connect);
  /// Waits until every rank has done what it was given. Throws `LostRanks` when one failed or does not come.
  void wait_for_all();

  std::shared_ptr<State> state_;
  std::vector<std::thread> threads_;
};

}  // namespace baleen
