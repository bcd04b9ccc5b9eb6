/// Random replies under a constraint, and vocabularies to write them with.
#pragma once

#include <memory>
#include <random>
#include <string>
#include <string_view>

#include "grammar/reply_constraint.h"
#include "tokenizer/tokenizer.h"

namespace baleen {

struct WalkVocabulary {
  Tokenizer tokenizer;
  std::shared_ptr<const MaskVocabulary> masks;
};

/// All bytes, pieces of JSON and of markup, halves of characters, and random tokens.
WalkVocabulary random_vocabulary(std::uint32_t seed);
/// Of models/stories.
const WalkVocabulary& bundled_vocabulary();

/// Whether the bit of a token is set.
bool allows(const TokenMask& mask, TokenId token);

/// The text of a reply to its end token, drawn from the masks; after some tokens it hurries to an end. Throws
/// `Error` when something is wrong, or no end comes in thousands of tokens. With `check`, now and then
/// compares the whole mask with trying every token.
std::string random_reply(ReplyConstraint constraint, const WalkVocabulary& vocabulary, std::mt19937& random,
                         bool check);

/// Whether the mask is exactly the set of tokens that a copy accepts, at least one of them.
bool mask_is_exact(const ReplyConstraint& constraint);

/// Whether `text` is a whole text of the grammar.
bool accepts_text(const Grammar& grammar, std::string_view text);
/// Whether some text of the grammar begins with `text`.
bool accepts_beginning(const Grammar& grammar, std::string_view text);

PythonJson json(std::string_view text);

}  // namespace baleen
