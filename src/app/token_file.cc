#include "app/token_file.h"

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/number.h"
#include "base/piped_text.h"
#include "base/quoted_text.h"

namespace baleen {

std::vector<TokenId> read_token_file(const std::filesystem::path& path) {
  // Negative ids are refused with the vocabulary in sight.
  constexpr WholeRange kTokenIds{std::numeric_limits<TokenId>::min(), std::numeric_limits<TokenId>::max()};
  constexpr std::string_view kSeparators = " ,\t\r\n";
  const std::string text = read_file_or_pipe(path.string());
  std::vector<TokenId> tokens;
  for (std::size_t at = text.find_first_not_of(kSeparators); at != std::string::npos;
       at = text.find_first_not_of(kSeparators, at)) {
    const std::size_t end = std::min(text.find_first_of(kSeparators, at), text.size());
    const std::string_view word = std::string_view(text).substr(at, end - at);
    const Result<std::int64_t> token = read_whole(word, kTokenIds);
    if (!token) {
      fail("{}: {} at byte {} is not a token id; expected numbers separated by spaces, commas or newlines",
           path.string(), quoted_text(word), at);
    }
    tokens.push_back(static_cast<TokenId>(token.value()));
    at = end;
  }
  if (tokens.empty())
    fail("{}: no token ids in it; expected numbers separated by spaces, commas or newlines", path.string());
  return tokens;
}

}  // namespace baleen
