#include "tokenizer/pre_tokenizer.h"

#include "base/error.h"
#include "base/quoted_text.h"

namespace baleen {

PreTokenizer::PreTokenizer(const std::vector<SplitRule>& rules, std::string_view name) {
  patterns_.reserve(rules.size());
  for (std::size_t i = 0; i < rules.size(); ++i) {
    patterns_.emplace_back(rules[i], fmt::format("{}: pre_tokenizer.pretokenizers[{}]", name, i));
  }
}

PreTokenizer::GaveUp PreTokenizer::gave_up(const SplitPattern& pattern, const SplitPattern::Match& match,
                                           const char* at) {
  return {fmt::format("the pattern {} gave up: {}", quoted_text(pattern.source()),
                      SplitPattern::error_text(match.error_code)),
          at};
}

}  // namespace baleen
