#include "grammar/reply_constraint.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "chat/format.h"
#include "grammar/compiled_grammar.h"
#include "grammar/mask_vocabulary.h"
#include "grammar/token_mask.h"

namespace baleen {
namespace {

/// What a block's grammar has read after the token that begins it, whether or not the blank line and `<` came
/// before.
constexpr std::string_view kBlockBegin = "\n\n<｜DSML｜";

void keep_both(TokenMask& mask, const TokenMask& other) {
  for (std::size_t word = 0; word < mask.size(); ++word) mask[word] &= other[word];
}

}  // namespace

ReplyConstraint::ReplyConstraint(ReplyRules rules, std::shared_ptr<const MaskVocabulary> vocabulary)
    : rules_(std::move(rules)), vocabulary_(std::move(vocabulary)) {
  BALEEN_CHECK(rules_.body == ReplyRules::Body::kFree || rules_.grammar != nullptr);
  if (rules_.starts_in_reasoning) {
    phase_ = Phase::kReasoning;
  } else {
    begin_body();
  }
}

void ReplyConstraint::begin_body() {
  if (rules_.body == ReplyRules::Body::kFree) {
    phase_ = Phase::kFree;
    return;
  }
  phase_ = Phase::kGrammar;
  Stepper(*rules_.grammar).begin(at_);
}

bool ReplyConstraint::fill(TokenMask& mask) {
  switch (phase_) {
    case Phase::kReasoning:
    case Phase::kFree: {
      const bool may_not_end = phase_ == Phase::kReasoning && rules_.body != ReplyRules::Body::kFree;
      if (!may_not_end && !rules_.forbids_calls) return false;
      mask = may_not_end ? vocabulary_->all_but_end() : vocabulary_->all_but_calls();
      if (may_not_end && rules_.forbids_calls) keep_both(mask, vocabulary_->all_but_calls());
      return true;
    }
    case Phase::kGrammar:
      mask.assign(vocabulary_->mask_words(), 0);
      add_allowed_tokens(*rules_.grammar, *vocabulary_, at_, mask);
      return true;
    case Phase::kEnded:
      if (rules_.grammar == nullptr) return false;
      mask.assign(vocabulary_->mask_words(), 0);
      allow(mask, vocabulary_->end_token());
      return true;
  }
  return false;
}

bool ReplyConstraint::accept(TokenId token) {
  const bool is_end = token == vocabulary_->end_token();
  switch (phase_) {
    case Phase::kReasoning:
      if (is_forbidden(token)) return false;
      if (token == vocabulary_->end_think()) {
        begin_body();
      } else if (rules_.body != ReplyRules::Body::kFree) {
        return !is_end && !vocabulary_->bytes_of(token).empty();
      } else if (is_end) {
        phase_ = Phase::kEnded;
      }
      return true;
    case Phase::kFree:
      return accept_free(token);
    case Phase::kGrammar:
      if (!is_end)
        return vocabulary_->is_text(token) &&
               Stepper(*rules_.grammar).advance(at_, vocabulary_->bytes_of(token));
      if (!at_.may_end) return false;
      phase_ = Phase::kEnded;
      return true;
    case Phase::kEnded:
      return is_end || rules_.grammar == nullptr;
  }
  return false;
}

bool ReplyConstraint::accept_free(TokenId token) {
  if (is_forbidden(token)) return false;
  if (rules_.grammar == nullptr) return true;
  if (token == vocabulary_->end_token()) {
    phase_ = Phase::kEnded;
  } else if (token == vocabulary_->calls_token()) {
    Stepper stepper(*rules_.grammar);
    stepper.begin(at_);
    BALEEN_CHECK(stepper.advance(at_, kBlockBegin));
    phase_ = Phase::kGrammar;
  }
  return true;
}

bool ReplyConstraint::is_forbidden(TokenId token) const {
  return rules_.forbids_calls &&
         (token == vocabulary_->calls_token() || vocabulary_->bytes_of(token).empty());
}

std::string ReplyConstraint::forced_bytes() const {
  return phase_ == Phase::kGrammar ? forced_continuation(*rules_.grammar, at_) : std::string();
}

}  // namespace baleen
