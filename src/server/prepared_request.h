/// From what a client asked to what the scheduler runs: prompts rendered and tokenised, grammars compiled.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "chat/call_memory.h"
#include "chat/reply_reader.h"
#include "protocols/protocol.h"
#include "scheduler/request.h"
#include "server/served_model.h"

namespace baleen {

struct PreparedRequest {
  ApiRequest asked;
  /// Choices of the first prompt, then of the next; `after_prompt_of` is not set.
  std::vector<Request> choices;
  std::vector<std::string> prompt_texts;  ///< one a prompt, for `echo`; else empty
  std::int64_t prompt_tokens = 0;         ///< over all prompts, each counted once
  std::vector<std::size_t> added_tokens;  ///< one a prompt: tokens before those that the client sent
  bool starts_in_reasoning = false;
  CallEnforcement enforcement = CallEnforcement::kNone;  ///< what the rules are to a reader of the reply
  std::vector<std::string> unenforced;  ///< tools and formats not wholly held, as "name (keyword, keyword)"

  /// Which prompt a choice belongs to.
  [[nodiscard]] std::size_t prompt_of(std::size_t choice) const {
    return choice / static_cast<std::size_t>(asked.num_choices);
  }
};

/// Keeps compiled grammars of recent requests. Thread-safe.
class RequestPreparer {
 public:
  /// All outlive this.
  RequestPreparer(const ServedModel& model, CallMemory& calls) : model_(model), calls_(calls) {}

  /// Refuses what does not fit the context or has no rendering.
  [[nodiscard]] ApiResult<PreparedRequest> prepare(ApiRequest request);

  /// The tokens of a conversation's prompt. `section_ends`, where it is wanted: as in Request.
  [[nodiscard]] ApiResult<std::vector<TokenId>> conversation_tokens(
      const ApiRequest& request, std::vector<std::int64_t>* section_ends = nullptr) const;

 private:
  struct HeldGrammar {
    Grammar grammar;
    std::vector<Unheld> unheld;  ///< what of its source it does not hold
  };
  struct KeptGrammar {
    std::string key;
    HeldGrammar held;
  };

  /// `num_added`: how many of them the client did not send.
  [[nodiscard]] ApiResult<std::vector<TokenId>> raw_tokens(const RawPrompt& prompt, std::size_t prompt_idx,
                                                           std::size_t& num_added) const;
  /// None when any token may come. `not_held`: what of the request's schemas they do not hold.
  [[nodiscard]] ApiResult<std::optional<ReplyRules>> rules_of(const ApiRequest& request,
                                                              std::vector<Unheld>& not_held);
  /// `compile` notes what the grammar does not hold in the vector that it is given.
  template <class Compile>
  [[nodiscard]] Result<HeldGrammar> cached(std::string key, const Compile& compile);

  /// Of the request's breakers, or the usual ones.
  [[nodiscard]] std::shared_ptr<const SequenceBreakers> dry_breakers(const ApiRequest& request);

  const ServedModel& model_;
  CallMemory& calls_;
  std::mutex mutex_;                        ///< guards what follows; nothing is compiled under it
  std::list<KeptGrammar> grammars_;         ///< most recently used first
  std::vector<std::string> breaker_texts_;  ///< that the latest request with a DRY penalty had
  std::shared_ptr<const SequenceBreakers> breakers_;
};

/// Tools that the reply may call: none where the client forbade it. Valid while `request` is.
[[nodiscard]] std::span<const DeclaredTool> callable_tools(const ApiRequest& request);

/// What of the chat format the reply begins after.
[[nodiscard]] ThinkingMode reply_mode(const PreparedRequest& request);

/// Whether the reply begins inside `<think>`.
[[nodiscard]] bool starts_in_reasoning(const ApiRequest& request);

}  // namespace baleen
