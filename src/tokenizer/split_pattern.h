/// One pattern of the pre-tokenizer, compiled by PCRE2 to machine code where the system allows it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "tokenizer/tokenizer_json.h"

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;
struct pcre2_real_match_context_8;

namespace baleen {

/// Scratch memory of matching; one for each thread that matches.
class MatchScratch {
 public:
  /// Of texts up to this size. The steps that one match may take grow with it: a run of spaces that is
  /// searched once for its newline is no reason to give up.
  explicit MatchScratch(std::size_t text_size);
  MatchScratch(const MatchScratch&) = delete;
  MatchScratch& operator=(const MatchScratch&) = delete;
  ~MatchScratch();

 private:
  friend class SplitPattern;
  pcre2_real_match_data_8* data_;
  pcre2_real_match_context_8* context_;
};

class SplitPattern {
 public:
  struct Match {
    enum class Status { kFound, kNone, kGaveUp };
    Status status = Status::kNone;
    std::size_t begin = 0;  ///< set with kFound: begin < end, from <= begin
    std::size_t end = 0;
    int error_code = 0;  ///< set with kGaveUp, for `error_text`
  };

  /// Throws `Error` when the pattern does not compile or can match nothing at all. `where` is what sentences
  /// call it.
  SplitPattern(const SplitRule& rule, std::string_view where);

  /// The first match in `text` at or after `from`. `text` is valid UTF-8 and is all that the pattern sees:
  /// look-ahead stops at its end. Gives up, instead of hanging, when the pattern backtracks too much.
  [[nodiscard]] Match find(std::string_view text, std::size_t from, MatchScratch& scratch) const;

  [[nodiscard]] const std::string& source() const { return source_; }

  static std::string error_text(int error_code);

 private:
  struct FreeCode {
    void operator()(pcre2_real_code_8* code) const;
  };

  std::string source_;
  std::unique_ptr<pcre2_real_code_8, FreeCode> code_;
};

}  // namespace baleen
