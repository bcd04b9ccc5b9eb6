/// Ranks as processes that mpirun or srun started, one rank each. The first drives: it schedules, prints and
/// calls the others, which follow until it ends. A signal to end that reaches another one is passed on to it.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "comm/mpi/mpi_communicator.h"
#include "model/weights.h"
#include "rank_engine/followed_to_the_end.h"
#include "rank_engine/rank_message.h"
#include "rank_engine/rank_team.h"

namespace baleen {

class ProcessTeam final : public RankTeam {
 public:
  /// The first rank's. `options` resolved. Throws where the others differ in program, checkpoint, plan or
  /// options.
  ProcessTeam(std::shared_ptr<MpiWorld> world, std::shared_ptr<const ModelWeights> weights,
              const EngineOptions& options);
  /// Ends the others.
  ~ProcessTeam() override;
  ProcessTeam(const ProcessTeam&) = delete;
  ProcessTeam& operator=(const ProcessTeam&) = delete;

  [[nodiscard]] const std::vector<RankReply>& call(const RankCall& call) override;
  [[nodiscard]] RankWorker& first() override { return *worker_; }
  [[nodiscard]] std::string place() const override;
  [[nodiscard]] std::int64_t copied_weight_bytes() const override { return worker_->copied_weight_bytes(); }

  /// What all other ranks do: execute what the first one calls. Throws `FollowedToTheEnd` when it ends.
  [[noreturn]] static void follow(const std::shared_ptr<MpiWorld>& world,
                                  std::shared_ptr<const ModelWeights> weights, const EngineOptions& options);

 private:
  void call_all(const RankCall& call);
  /// Watches for ranks that got a signal to end.
  void listen(const std::stop_token& stop);

  MpiCommunicator communicator_;
  std::int64_t num_ranks_;
  std::shared_ptr<DevicePeers> peers_;  ///< connects GPUs; null: ranks are on processors
  std::unique_ptr<RankWorker> worker_;
  /// Logits of a pass stay where they are while it is committed.
  std::vector<ReceivedReply> of_passes_, of_others_;
  std::vector<RankReply> replies_;
  std::string lost_;
  std::jthread listener_;  ///< last: it uses the communicator
};

}  // namespace baleen
