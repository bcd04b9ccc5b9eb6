#include "app/token_file.h"

#include <charconv>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/file.h"

namespace baleen {

std::vector<TokenId> read_token_file(const std::filesystem::path& path) {
  constexpr std::string_view kSeparators = " ,\t\r\n";
  const std::string text = read_text_file(path);
  std::vector<TokenId> tokens;
  for (std::size_t at = text.find_first_not_of(kSeparators); at != std::string::npos;
       at = text.find_first_not_of(kSeparators, at)) {
    const std::size_t end = std::min(text.find_first_of(kSeparators, at), text.size());
    TokenId token = 0;
    const auto [stop, error] = std::from_chars(text.data() + at, text.data() + end, token);
    if (error != std::errc() || stop != text.data() + end) {
      fail(
          "{}: \"{}\" at byte {} is not a token id; expected numbers separated by spaces, commas or newlines",
          path.string(), text.substr(at, std::min<std::size_t>(end - at, 40)), at);
    }
    tokens.push_back(token);
    at = end;
  }
  if (tokens.empty())
    fail("{}: no token ids in it; expected numbers separated by spaces, commas or newlines", path.string());
  return tokens;
}

}  // namespace baleen
