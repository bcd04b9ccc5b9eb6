/// Who waits and who runs: admission and preemption. Knows neither tokens nor steps, so that the simulator
/// lines up its requests with the very same code.
///
/// Invariants
///  1. A contender is in exactly one of the two lists; it has a sequence iff it runs.
///  2. At most `max_running` run: every one of them can be in every step.
///  3. No request is admitted past a more important contender that could start, and none is preempted for a
///     less important one. So the most important one runs, can take every page there is, and ends: there is
///     no deadlock, and among equals none starves.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "scheduler/contender.h"

namespace baleen {

/// What the lineup asks of whoever owns the contenders.
class ContenderOwner {
 public:
  virtual ~ContenderOwner() = default;
  /// A sequence for all tokens of the contender, as StepEngine::open.
  [[nodiscard]] virtual std::optional<SequenceId> open(Contender& contender) = 0;
  /// It runs now, maybe not for the first time.
  virtual void started(Contender& contender) = 0;
  /// It waits again; what steps under way choose for it is dropped.
  virtual void stopped(Contender& contender) = 0;
  /// It can never run, as the sentence says: to be removed.
  virtual void refuse(Contender& contender, std::string sentence) = 0;
  /// Null when it is gone.
  [[nodiscard]] virtual const Contender* find(RequestId id) const = 0;
};

class Lineup {
 public:
  /// Both outlive the lineup.
  Lineup(SequenceKeeper& sequences, ContenderOwner& owner, std::int64_t max_running);
  /// The sequences of those who still run are closed.
  ~Lineup();
  Lineup(const Lineup&) = delete;
  Lineup& operator=(const Lineup&) = delete;

  /// To wait. The contender stays where it is until it is removed.
  void add(Contender& contender) { waiting_.insert(&contender); }
  /// Running or waiting. The cache takes over its pages when `keep`.
  void remove(Contender& contender, bool keep);

  /// Lets contenders run, in order, while there is room; for one of higher priority, room is made.
  void admit();

  /// By falling importance.
  [[nodiscard]] std::span<Contender* const> running() const { return running_; }
  [[nodiscard]] std::int64_t num_running() const { return std::ssize(running_); }
  [[nodiscard]] std::int64_t num_waiting() const { return std::ssize(waiting_); }
  [[nodiscard]] bool waits(Contender& contender) const { return waiting_.contains(&contender); }
  [[nodiscard]] std::int64_t num_preemptions() const { return num_preemptions_; }

  /// Room for that many more tokens of a running contender's sequence, taken from less important ones if need
  /// be: the least important one first. False when there is none, with nothing changed.
  [[nodiscard]] bool reserve(Contender& contender, std::int64_t num_tokens);
  /// Stops one that runs, to wait for room and be computed again; the cache keeps its pages while it can.
  void preempt(Contender& contender);
  /// As ContenderOwner::refuse.
  void refuse(Contender& contender, std::string sentence);

 private:
  enum class Admission { kRuns, kNoRoom, kEnded };
  [[nodiscard]] Admission try_admit(Contender& contender);
  /// From running to waiting.
  void put_back(Contender& contender);
  [[nodiscard]] bool may_start(const Contender& contender) const;
  /// Whether all its tokens find pages beside those that running ones have or need for theirs; those below
  /// `least_priority` do not count.
  [[nodiscard]] bool fits(const Contender& contender, int least_priority) const;
  void insert_running(Contender& contender);
  /// Whether it ran.
  bool erase_running(const Contender& contender);

  SequenceKeeper& sequences_;
  ContenderOwner& owner_;
  std::int64_t max_running_;
  std::int64_t total_pages_;
  std::set<Contender*, MoreImportant> waiting_;
  std::vector<Contender*> running_;  ///< sorted by importance
  std::int64_t num_ended_ = 0;       ///< contenders that ran and have ended
  std::int64_t num_preemptions_ = 0;
};

}  // namespace baleen
