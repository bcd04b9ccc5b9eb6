/// How many drafts each request gets in a step: as many as raise the tokens a second, by what drafts were
/// accepted and what steps took.
///
///     chance that a chain comes so far   a: .9 .8 .6   b: .5 .2 .1        c: .7 .3 .1
///     by falling chance                  a1 a2 c1 a3 b1 c2 b2 ..
///     tokens expected with the first k   3, 3.9, 4.7, 5.4, 6.0, 6.5, ..   over the seconds of a step with k
///     best k = 4                         a: 3 drafts, c: 1, b: none
///
/// (source: the scheduler of the DSpark paper.) That one stops at the first k whose rate is lower. Here all k
/// are compared, because drafting has a price of its own: the first draft of a step may not pay where five
/// do.
///
/// Times are measured, so they are those of this machine, model, context and load, and they go on being
/// measured: a probe is a step in which every request gets the same number of drafts, another than is best.
/// Probes cost at most `kProbeShare` of the time: one waits until earlier ones are paid for. Beside them
/// comes what is tried where nothing is known yet: `kFirstSteps` steps with drafts and as many without for
/// each doubling of the rows, of steps with prompts and of steps without.
///
/// No reply depends on any of this. A token is what its own row's logits and draw give, drafted or not, and a
/// draft counts only while it equals that token; the schedule decides how many rows a step has. So, other
/// than where drafts are accepted at random, it may look at whatever it likes, at these drafts too.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "scheduler/draft_acceptance.h"
#include "scheduler/measured_steps.h"

namespace baleen {

/// A request that decodes in the next step.
struct DraftCandidate {
  const DraftHistory* record = nullptr;
  std::int64_t most = 0;                   ///< drafts that it has room for
  std::span<const float> confidence = {};  ///< tells `most` drafts that are made already
  std::int64_t num_drafts = 0;             ///< what it gets
};

/// What the schedule decided about a step, for when the step has been run.
struct DraftDecision {
  std::int64_t num_sequences = 0;      ///< that decode
  std::int64_t num_prompt_tokens = 0;  ///< beside them
  /// No request shall have drafts because they do not pay now, or to measure that: the step can begin before
  /// the one before has ended.
  bool without_drafts = false;
  std::optional<std::int64_t> probe = std::nullopt;  ///< drafts of each request, to measure
  double best_rate = 0;                              ///< tokens a second that are expected without the probe

  /// Rows of the step beside its drafts.
  [[nodiscard]] std::int64_t num_rows() const { return num_sequences + num_prompt_tokens; }
};

class DraftSchedule {
 public:
  static constexpr double kProbeShare = 0.01;
  static constexpr std::int64_t kProbePeriod = 32;  ///< steps from one probe to the next, at least
  static constexpr std::int64_t kFirstSteps = MeasuredSteps::kLeast;
  /// Drafts that promise less are left out: times and chances are not known better than that.
  static constexpr double kLeastGain = 0.02;

  /// Up to `most_drafts` a request. Not `adapts`: always as many.
  DraftSchedule(std::int64_t most_drafts, bool adapts)
      : most_drafts_(most_drafts),
        adapts_(adapts),
        acceptance_(most_drafts),
        decoding_steps_(most_drafts),
        mixed_steps_(most_drafts) {}

  /// Gives drafts to the sequences that decode. `num_prompt_tokens`: what the step computes of prompts, which
  /// counts as tokens as those of replies do.
  [[nodiscard]] DraftDecision allot(std::span<DraftCandidate> candidates,
                                    std::int64_t num_prompt_tokens) const;
  /// Drafts were made, and their confidences are known: decides how many of them the step checks.
  void cut(std::span<DraftCandidate> candidates, const DraftDecision& decision) const;

  /// A step checked a chain of drafts.
  void see(DraftHistory& record, const CheckedDrafts& drafts) { acceptance_.see(record, drafts); }
  /// A step of `num_drafts` drafts, `num_accepted` of them right, took `seconds`.
  void took(const DraftDecision& decision, std::int64_t num_drafts, std::int64_t num_accepted,
            double seconds);

 private:
  /// Steps like that one.
  [[nodiscard]] const MeasuredSteps& steps_like(const DraftDecision& step) const {
    return step.num_prompt_tokens > 0 ? mixed_steps_ : decoding_steps_;
  }
  /// Whether steps like that one were measured with drafts and without.
  [[nodiscard]] bool knows(const DraftDecision& step) const;
  /// The best numbers of drafts. `drafted`: the drafts are there. Tokens a second that are expected then.
  double allot_best(std::span<DraftCandidate> candidates, const DraftDecision& step, bool drafted) const;

  std::int64_t most_drafts_;
  bool adapts_;
  DraftAcceptance acceptance_;
  MeasuredSteps decoding_steps_, mixed_steps_;  ///< the latter with prompts
  std::int64_t steps_since_probe_ = 0;
  double probe_credit_seconds_ = 0;
};

}  // namespace baleen
