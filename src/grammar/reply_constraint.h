/// Which tokens may come next in one reply: free reasoning, then what the request wants.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "grammar/configuration.h"
#include "grammar/grammar.h"
#include "tensor/ragged_batch.h"
#include "tokenizer/tokenizer.h"

namespace baleen {

/// One bit per token of the model's vocabulary: bit id % 64 of word id / 64.
using TokenMask = std::vector<std::uint64_t>;

/// The vocabulary arranged for masks (mask_vocabulary.h); made once, shared by all replies, immutable but for
/// caches it guards itself.
class MaskVocabulary;
/// `vocab_size` is the model's, at least the tokenizer's: ids without a token are never allowed under a mask.
/// Throws `Error` when some byte has no ordinary token of its own (a grammar could then get stuck), or when
/// the end token or `</think>` is missing. Some 50 ms for the real vocabulary.
[[nodiscard]] std::shared_ptr<const MaskVocabulary> make_mask_vocabulary(const Tokenizer& tokenizer,
                                                                         std::int64_t vocab_size);

/// What a reply must be after its reasoning.
struct ReplyRules {
  bool starts_in_reasoning = false;  ///< the prompt ended with `<think>`: anything goes until `</think>`
  enum class Body : std::uint8_t {
    kFree,  ///< any text; from the token `｜DSML｜` on, which begins a tool-call block, `grammar` (if any)
    kGrammar,    ///< `grammar`, then the end
    kToolCalls,  ///< a tool-call block at once: `grammar`, then the end
  } body = Body::kFree;
  Grammar grammar;
  bool forbids_calls = false;  ///< `｜DSML｜` may not come anywhere, reasoning included
};

/// One for each reply. Copyable: a copy tries drafts; it costs a few hundred bytes.
///
/// Control tokens (special ones, and added ones such as `<｜User｜>`, but not `｜DSML｜`) never stand in text
/// under a grammar. In a free reply only the token `｜DSML｜` begins a block, text that looks like it is text;
/// under a grammar any division of its bytes into tokens is as good as another. Reasoning ends at the token
/// `</think>` and may not end the reply when a body is required. After the end token only the end token is
/// allowed.
///
/// Not for two threads at once; copies may be used by different threads.
class ReplyConstraint {
 public:
  /// `rules.grammar` may be null only for Body::kFree.
  ReplyConstraint(ReplyRules rules, std::shared_ptr<const MaskVocabulary> vocabulary);

  /// False: every token is allowed now, `mask` is left alone. Otherwise sets it. At least one token is
  /// allowed; the end token only where the reply may end. Microseconds, but for the first use of a place in
  /// a grammar (docs/grammar.md has figures).
  [[nodiscard]] bool fill(TokenMask& mask);
  /// Moves on. False, changing nothing, when the token is not allowed.
  bool accept(TokenId token);
  /// The bytes that must come next whatever is sampled; empty when there is a choice. For drafts: forced
  /// syntax needs no model.
  [[nodiscard]] std::string forced_bytes() const;

 private:
  enum class Phase : std::uint8_t { kReasoning, kFree, kGrammar, kEnded };

  void begin_body();
  [[nodiscard]] bool accept_free(TokenId token);
  [[nodiscard]] bool is_forbidden(TokenId token) const;

  ReplyRules rules_;
  std::shared_ptr<const MaskVocabulary> vocabulary_;
  Phase phase_ = Phase::kFree;
  Configuration at_;  ///< kGrammar: where the grammar stands
};

}  // namespace baleen
