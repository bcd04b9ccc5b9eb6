#include "tests/grammar/pattern_matcher.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/error.h"

namespace baleen {

struct PatternMatcher::Code {
  pcre2_code* code = nullptr;
  pcre2_match_data* data = nullptr;
};

PatternMatcher::PatternMatcher(const std::string& pattern) : code_(std::make_unique<Code>()) {
  int error = 0;
  PCRE2_SIZE at = 0;
  code_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                              PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_ALT_BSUX, &error, &at, nullptr);
  if (code_->code == nullptr) fail("{}: PCRE2 error {} at {}", pattern, error, at);
  code_->data = pcre2_match_data_create_from_pattern(code_->code, nullptr);
}

PatternMatcher::~PatternMatcher() {
  pcre2_match_data_free(code_->data);
  pcre2_code_free(code_->code);
}

std::optional<bool> PatternMatcher::finds(std::string_view text) const {
  const int found = pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0,
                                code_->data, nullptr);
  if (found == PCRE2_ERROR_MATCHLIMIT) return std::nullopt;
  if (found < 0 && found != PCRE2_ERROR_NOMATCH) fail("PCRE2 error {} for {}", found, text);
  return found >= 0;
}

}  // namespace baleen
