#include "tests/grammar/walks.h"

#include <algorithm>
#include <vector>

#include "chat/format.h"
#include "grammar/compiled_grammar.h"
#include "grammar/mask_vocabulary.h"
#include "tests/tokenizer/small_vocabulary.h"

namespace baleen {
namespace {

using namespace chat_format;

constexpr std::size_t kCalmTokens = 40, kMaxTokens = 4000;

std::vector<std::string> fragments(std::mt19937& random) {
  std::vector<std::string> words = {
      "\": ", "\":",      "\", \"",   "\",",        "{\"",  "\"}",   "\"}}",     "[]",
      "{}",   "[[",       "]]",       "[[[[[[",     "],",   "}]",    "\n  ",     "\n\n",
      ", ",   "true",     "false",    "null",       "name", "type",  "value",    "string",
      "=\"",  "\">",      "\">\n",    "</",         "/>",   "-1",    "12",       "0.5",
      "1,",   "2]",       "3}",       "e+",         "\\\"", "\\n",   "\\u00",    "\\ud8",
      "\\\\", "  ",       "    ",     "é",          "日本", "\xEF",  "\xEF\xBD", "\xBD\x9C",
      "｜",   "\xF0\x9F", "\x98\x80", "DSML",       "ab",   "abc",   "the ",     " a",
      "para", "meter",    "invoke",   "tool_calls", "a\"",  "b\":1", "\x80\x80", "<"};
  const std::string alphabet = "ab01\"\\{}[],:.-+eE <>/\n";
  for (int i = 0; i < 150; ++i) {
    std::string word;
    for (std::size_t size = 2 + random() % 4; word.size() < size;)
      word += alphabet[random() % alphabet.size()];
    words.push_back(word);
  }
  return words;
}

TokenId draw(const TokenMask& mask, const WalkVocabulary& vocabulary, std::mt19937& random, bool hurry) {
  std::vector<TokenId> allowed, closing;
  for (TokenId token = 0; token < static_cast<TokenId>(mask.size() * 64); ++token) {
    if (!allows(mask, token)) continue;
    if (token == vocabulary.masks->end_token() && (hurry || random() % 4 == 0)) return token;
    const std::string_view bytes = vocabulary.tokenizer.bytes_of(token);
    if (hurry && bytes == kDsml && random() % 2 == 0) return token;
    if (bytes == "}" || bytes == "]" || bytes == "\"" || bytes == "<" || bytes == "/")
      closing.push_back(token);
    allowed.push_back(token);
  }
  if (hurry && !closing.empty() && random() % 8 != 0) return closing[random() % closing.size()];
  return allowed.empty() ? -1 : allowed[random() % allowed.size()];
}

}  // namespace

WalkVocabulary random_vocabulary(std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<BytePair> merges;
  for (const std::string& word : fragments(random)) {
    for (std::size_t size = 1; size < word.size(); ++size)
      merges.emplace_back(word.substr(0, size), word.substr(size, 1));
  }
  std::ranges::sort(merges);
  merges.erase(std::unique(merges.begin(), merges.end()), merges.end());
  // Each merge's left part must be made before it.
  std::ranges::stable_sort(merges, {}, [](const BytePair& pair) { return pair.first.size(); });
  nlohmann::json file = small_vocabulary(merges);
  auto id = static_cast<std::int32_t>(file["model"]["vocab"].size());
  for (const std::string_view text : {kBos, kEos, kThink, kEndThink, kDsml, kUser}) {
    const bool special = text == kBos || text == kEos;
    file["added_tokens"].push_back(added_token(id++, std::string(text), special, false));
  }
  Tokenizer tokenizer = Tokenizer::parse(file.dump(), "random vocabulary");
  auto masks = make_mask_vocabulary(tokenizer, tokenizer.vocab_size() + 5);
  return {std::move(tokenizer), std::move(masks)};
}

const WalkVocabulary& bundled_vocabulary() {
  static const WalkVocabulary vocabulary = [] {
    Tokenizer tokenizer = Tokenizer::load("models/stories");
    auto masks = make_mask_vocabulary(tokenizer, tokenizer.vocab_size());
    return WalkVocabulary{std::move(tokenizer), std::move(masks)};
  }();
  return vocabulary;
}

bool allows(const TokenMask& mask, TokenId token) { return (mask[token / 64] >> (token % 64) & 1) != 0; }

bool mask_is_exact(const ReplyConstraint& constraint) {
  ReplyConstraint copy = constraint;
  TokenMask mask;
  if (!copy.fill(mask)) return true;
  bool any = false;
  for (TokenId token = 0; token < static_cast<TokenId>(mask.size() * 64); ++token) {
    ReplyConstraint trial = constraint;
    if (trial.accept(token) != allows(mask, token)) return false;
    any |= allows(mask, token);
  }
  return any;
}

std::string random_reply(ReplyConstraint constraint, const WalkVocabulary& vocabulary, std::mt19937& random,
                         bool check) {
  std::string text;
  TokenMask mask;
  const std::size_t calm = random() % kCalmTokens;
  for (std::size_t i = 0; i < kMaxTokens; ++i) {
    const auto wrong = [&](std::string_view what) { fail("token {}, {}: {}", i, what, text); };
    if (!constraint.fill(mask)) wrong("everything was allowed after");
    if (check && random() % 8 == 0 && !mask_is_exact(constraint)) wrong("the mask is not exact after");
    const std::string forced = constraint.forced_bytes();
    const TokenId token = draw(mask, vocabulary, random, i > calm);
    if (token < 0 || !constraint.accept(token))
      wrong("nothing was allowed, or not what the mask said, after");
    if (token == vocabulary.masks->end_token()) return text;
    const std::string_view bytes = vocabulary.tokenizer.bytes_of(token);
    if (!forced.starts_with(bytes.substr(0, forced.size()))) wrong("not what was forced came after");
    text += bytes;
  }
  fail("no end after {} tokens: {}", kMaxTokens, text);
}

bool accepts_beginning(const Grammar& grammar, std::string_view text) {
  Stepper stepper(*grammar);
  Configuration at;
  stepper.begin(at);
  return stepper.advance(at, text);
}

bool accepts_text(const Grammar& grammar, std::string_view text) {
  Stepper stepper(*grammar);
  Configuration at;
  stepper.begin(at);
  return stepper.advance(at, text) && at.may_end;
}

PythonJson json(std::string_view text) {
  auto parsed = parse_python_json(text);
  if (!parsed) throw Error(parsed.error() + " in " + std::string(text));
  return std::move(parsed).value();
}

}  // namespace baleen
