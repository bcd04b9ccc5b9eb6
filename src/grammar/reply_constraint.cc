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

/// With these bytes a tool-call block has begun; what was before them decides nothing, so that a block without its
/// blank line is held to the syntax too.
constexpr std::string_view kMarkupBegin = "<｜DSML｜";
constexpr std::string_view kBlockBegin = "\n\n<｜DSML｜";

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
      if (rules_.body == ReplyRules::Body::kFree) return false;
      mask = vocabulary_->all_but_end();
      return true;
    case Phase::kFree:
      return false;
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
  if (rules_.grammar == nullptr) return true;
  if (token == vocabulary_->end_token()) {
    phase_ = Phase::kEnded;
    return true;
  }
  recent_text_ += vocabulary_->bytes_of(token);
  const std::size_t begin = recent_text_.find(kMarkupBegin);
  if (begin != std::string::npos) {
    Stepper stepper(*rules_.grammar);
    stepper.begin(at_);
    const std::string rest = recent_text_.substr(begin + kMarkupBegin.size());
    if (stepper.advance(at_, std::string(kBlockBegin) + rest)) {
      phase_ = Phase::kGrammar;
      recent_text_.clear();
      return true;
    }
  }
  const std::size_t kept = std::min(recent_text_.size(), kMarkupBegin.size() - 1);
  recent_text_.erase(0, recent_text_.size() - kept);
  return true;
}

std::string ReplyConstraint::forced_bytes() const {
  return phase_ == Phase::kGrammar ? forced_continuation(*rules_.grammar, at_) : std::string();
}

}  // namespace baleen
