#include "chat/drafted_block.h"

#include <utility>

#include "chat/white_space.h"

namespace baleen {

using Kind = Markup::Kind;

DraftedBlock::Verdict DraftedBlock::add(Markup stretch, bool is_declared) {
  const bool fits_in = fits(stretch, is_declared);
  if (stretch.kind == Kind::kParameter) is_in_value_ = !stretch.is_closing && !stretch.is_empty;
  if (stretch.kind != Kind::kText) {
    const bool closes_invoke = stretch.kind == Kind::kInvoke && (stretch.is_closing || stretch.is_empty);
    is_whole_ = closes_invoke || stretch.closes(Kind::kCalls);
    is_closed_ |= stretch.closes(Kind::kCalls);
    if (is_whole_) is_in_value_ = false;
  }
  stretches_.push_back(std::move(stretch));
  return fits_in ? Verdict::kOpen : Verdict::kThought;
}

bool DraftedBlock::fits(const Markup& stretch, bool is_declared) const {
  switch (stretch.kind) {
    case Kind::kText:
      return is_in_value_ || is_blank(stretch.raw);
    case Kind::kCalls:
      return stretch.is_closing ? !is_closed_ : stretches_.empty();
    case Kind::kInvoke:
      return !is_closed_ && is_declared;
    case Kind::kParameter:
      return !is_closed_;
    case Kind::kThink:
    case Kind::kOther:
      return is_in_value_;
    case Kind::kEndThink:  // the reasoning goes on to its own end
    case Kind::kEos:
    case Kind::kCut:
      break;
  }
  return false;
}

}  // namespace baleen
