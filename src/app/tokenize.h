/// `baleen tokenize`: JSON lines of text to JSON lines of ids, and back.
#pragma once

#include <iosfwd>

#include "tokenizer/tokenizer.h"

namespace baleen {

/// Answers each line of `in` with one line on `out`, in order: {"text": ...} with {"ids": [...]}, {"ids":
/// [...]} with {"text": ...}. Blank lines are passed over. `interactive`: flush after each answer, because a
/// person waits for it. Throws `Error` at the first line that is neither, or holds an id without a token or
/// text that is not UTF-8; the answers to the lines before it have been written.
void tokenize_lines(const Tokenizer& tokenizer, std::istream& in, std::ostream& out, bool interactive);

}  // namespace baleen
