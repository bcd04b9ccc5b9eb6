/// One job's part of a step, from plan to result.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "scheduler/job.h"
#include "scheduler/step_plan.h"

namespace baleen {

struct JobStep {
  JobStep(Job& of, const StepShare& share, std::int64_t start);

  RequestId id{};
  SequenceId sequence{};
  StepShare share;
  bool decodes = false;        ///< its one token follows a token of the reply
  bool wants_row = false;      ///< the token after its last one is not known yet
  bool scores_prompt = false;  ///< logits of all its tokens, for the logprobs of the prompt's
  std::int64_t num_seen = 0;   ///< tokens that the sequence has seen after the step, drafts apart
  DraftChain drafts;
  std::vector<float> confidence;  ///< one for each of `drafts`; empty where the draft head tells none
  std::int64_t num_drafts = 0;    ///< that the step checks: those of `drafts`, or as many as the engine makes
  std::vector<TokenId>
      fed;  ///< the job's tokens and the drafts; kNoToken for one that a step under way chooses
  std::vector<SampleRow> draws;  ///< one for each row it wants, where the engine chooses

  /// Rows that tokens of the reply are chosen from: one, and one for each draft.
  [[nodiscard]] std::int64_t num_reply_rows() const { return wants_row ? 1 + num_drafts : 0; }
  /// Logit rows of the step.
  [[nodiscard]] std::int64_t num_rows() const { return scores_prompt ? std::ssize(fed) : num_reply_rows(); }
  void feed_drafts() {
    fed.insert(fed.end(), drafts.tokens.begin(), drafts.tokens.end());
    num_drafts = std::ssize(drafts.tokens);
  }
  /// Fills `draws`, unless more than logits decides a token of `job`, whose part this is (also one that a
  /// step under way chooses, which may have to give way to a forced one), or its prompt is scored. True when
  /// nothing is left to decide on the host.
  bool let_engine_choose(const Job& job);
  /// Valid while this is.
  [[nodiscard]] StepInput input() const;
  /// The same for `StepEngine::queue`, with drafts that the engine makes.
  [[nodiscard]] StepInput queued_input() const;
};

}  // namespace baleen
