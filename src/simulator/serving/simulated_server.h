/// One scheduler and its engine on virtual time. What decides is the scheduler's own code (Lineup,
/// StepPlanner, the engine's SequenceTable); what is left out is text, sampling and the forward pass: a step
/// is its seconds, and a reply is its length.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "scheduler/draft_schedule.h"
#include "scheduler/lineup.h"
#include "scheduler/step_planner.h"
#include "simulator/serving/acceptance.h"
#include "simulator/serving/request_source.h"
#include "simulator/serving/server_setup.h"
#include "simulator/serving/serving_record.h"
#include "simulator/serving/simulated_sequences.h"

namespace baleen {

struct SimulatedJob : Contender {
  explicit SimulatedJob(const ServingRequest& of);

  ServingRequest request;
  RequestRecord record;
  std::int64_t tokens_left = 0;   ///< tokens of the reply that are to come
  std::int64_t found_tokens = 0;  ///< what the prefix cache had when it was last opened
  double last_token = 0;          ///< when it came
  bool was_admitted = false;
  /// Its first tokens were computed by another server: their cache rows are there when it is opened.
  bool brings_cache = false;
  [[nodiscard]] std::int64_t reply_tokens() const { return record.output_tokens - tokens_left; }
};

/// Seconds.
inline constexpr double kForEver = std::numeric_limits<double>::infinity();

class SimulatedServer final : private ContenderOwner {
 public:
  /// `prefill_only`: jobs leave after their first token. Clients who have no token for `patience_seconds`
  /// after arrival cancel. `gaps` outlives the server. Throws `Error` for a setup that cannot be.
  SimulatedServer(ServerSetup setup, Acceptance acceptance, bool prefill_only, double patience_seconds,
                  TimeHistogram& gaps);
  SimulatedServer(const SimulatedServer&) = delete;
  SimulatedServer& operator=(const SimulatedServer&) = delete;
  ~SimulatedServer() override = default;

  using JobPtr = std::unique_ptr<SimulatedJob>;

  /// To wait, under an id that rises from call to call. It comes back through `take_gone`, maybe at once.
  void submit(JobPtr job, double now);

  /// One turn of the scheduler's loop: admits, plans and begins a step. When it ends; empty when there is
  /// nothing to do.
  ///
  /// Where the next steps must be the same tokens of the same sequences one position on, because no request
  /// can come, end or need a page, they are taken at once; the last one then ends at the returned time. None
  /// but the first begins at `horizon` or later: from then on another request may want something.
  [[nodiscard]] std::optional<double> begin_steps(double now, double horizon);
  /// What the steps that end now bring.
  void end_steps(double now);

  /// Those who have ended, were refused or leave with their first token, since the last call.
  [[nodiscard]] std::vector<JobPtr> take_gone() { return std::exchange(gone_, {}); }
  [[nodiscard]] bool empty() const { return jobs_.empty(); }

  /// Of all steps so far: 50 each, and 1 for each sequence in it.
  [[nodiscard]] std::int64_t work() const { return work_; }

  [[nodiscard]] ServerRecord record() const;
  /// Empty while none was refused.
  [[nodiscard]] const std::string& first_refusal() const { return first_refusal_; }
  /// No request has pages, and all pools are sound.
  void check_all_came_back() const;

 private:
  /// A part of the step in progress.
  struct Part {
    SimulatedJob* job = nullptr;
    StepShare share;
    bool gives_token = false;
    std::int64_t num_accepted = 0;  ///< how many of its drafts were right
  };

  [[nodiscard]] std::optional<SequenceId> open(Contender& contender) override;
  void started(Contender& contender) override;
  void stopped(Contender& /*contender*/) override {}
  void refuse(Contender& contender, std::string sentence) override;
  [[nodiscard]] const Contender* find(RequestId id) const override;

  /// Those who have come since the last turn begin to wait, or are refused.
  void take_arrived();
  /// The earliest job that came and has no token yet; null when all have.
  [[nodiscard]] SimulatedJob* longest_without_token();
  /// Those who will not wait any longer are gone.
  void take_cancellations(double now);
  /// Fills parts_ and step_; false when no request is in the step.
  [[nodiscard]] bool plan();
  /// How many steps, the planned one included, are the same as long as no request comes.
  [[nodiscard]] std::int64_t num_equal_steps(bool someone_lost_room) const;
  void count_step(double begin, double end);
  /// Seconds of the drafts of the planned step, one link after the other from `now` on: when they end.
  [[nodiscard]] double end_of_drafts(double now);
  /// What one part's rows bring; it may end.
  void take_tokens(const Part& part, double now);
  void add_gap(SimulatedJob& job, double now);
  void release(SimulatedJob& job, double now, RequestEnd end);
  void look_at_pools(double now);

  ServerSetup setup_;
  EngineLimits limits_;
  Acceptance acceptance_;
  bool prefill_only_;
  double patience_seconds_;
  TimeHistogram& gaps_;
  std::int64_t most_drafts_;
  DraftSchedule schedule_;
  SimulatedSequences sequences_;
  std::unordered_map<std::int64_t, JobPtr> jobs_;  ///< keys are ids
  Lineup lineup_;
  StepPlanner planner_;
  std::vector<JobPtr> gone_;
  std::int64_t next_id_ = 0;
  std::vector<SimulatedJob*> arrived_;      ///< since the last turn
  std::deque<std::int64_t> without_token_;  ///< ids by arrival; some have a token by now, or are gone
  std::int64_t num_queued_ = 0;             ///< waiting, as those who submit can see it
  double now_ = 0;

  // Of the steps in progress.
  std::vector<Part> parts_;
  std::vector<QueryPart> step_, chains_;
  std::int64_t num_steps_ = 0;
  double began_at_ = 0;
  DraftDecision decision_;

  ServerRecord record_;
  std::int64_t work_ = 0;
  double looked_at_ = 0;
  std::string first_refusal_;
};

}  // namespace baleen
