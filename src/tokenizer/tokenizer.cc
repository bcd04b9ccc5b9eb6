#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "base/quoted_text.h"
#include "base/utf8.h"
#include "base/work_budget.h"
#include "checkpoint/gguf/gguf_model.h"
#include "tokenizer/byte_pair_merger.h"
#include "tokenizer/gguf_tokenizer.h"
#include "tokenizer/word_cache.h"

namespace baleen {
namespace {

using Json = nlohmann::json;

/// Of a byte of prose.
constexpr std::int64_t kWorkPerByte = 4;

std::vector<AddedToken> select(const std::vector<AddedToken>& tokens, bool normalized) {
  std::vector<AddedToken> selected;
  std::copy_if(tokens.begin(), tokens.end(), std::back_inserter(selected),
               [&](const AddedToken& token) { return token.normalized == normalized; });
  return selected;
}

std::vector<bool> control_tokens(const Vocabulary& vocabulary, const std::vector<AddedToken>& added) {
  std::vector<bool> control(static_cast<std::size_t>(vocabulary.size()));
  for (TokenId id = 0; id < vocabulary.size(); ++id) control[id] = vocabulary.is_special(id);
  for (const AddedToken& token : added) control[token.id] = true;
  return control;
}

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

/// `config[key]` is a string, an object with "content", or null; it names a token of the vocabulary.
std::optional<TokenId> named_token(const Json& config, const char* key, const Tokenizer& tokenizer,
                                   const std::string& name) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return std::nullopt;
  const Json text = found->is_object() ? found->value("content", Json()) : *found;
  if (!text.is_string())
    fail("{}: {} is {}; a string, or an object with \"content\", was expected", name, key,
         found->type_name());
  const auto id = tokenizer.id_of(text.get_ref<const std::string&>());
  if (!id)
    fail("{}: {} is {}, which is not an added token of tokenizer.json", name, key,
         quoted_text(text.get_ref<const std::string&>()));
  return id;
}

/// Calls `take_token(id)` and `take_text(text)` for the added tokens in `text` and for what lies between
/// them.
template <class TakeToken, class TakeText>
void cut_at_tokens(std::string_view text, const AddedTokens& tokens, TakeToken&& take_token,
                   TakeText&& take_text) {
  std::size_t done = 0;
  while (const auto match = tokens.find(text, done)) {
    take_text(text.substr(done, match->begin - done));
    take_token(match->id);
    done = match->begin + match->size;
  }
  take_text(text.substr(done));
}

}  // namespace

Tokenizer::Tokenizer(const TokenizerJson& json, std::string_view name)
    : vocabulary_(json.vocabulary, json.added_tokens, name),
      control_(control_tokens(vocabulary_, json.added_tokens)),
      merges_(index_tokens(json.vocabulary, json.added_tokens, name), json.merges, name),
      pre_tokenizer_(json.splits, name),
      exact_(select(json.added_tokens, false), name),
      normalized_(select(json.added_tokens, true), name) {}

Tokenizer Tokenizer::parse(std::string_view tokenizer_json, std::string_view name) {
  return {read_tokenizer_json(tokenizer_json, name), name};
}

Tokenizer Tokenizer::load(const std::filesystem::path& model) {
  if (const auto gguf = find_gguf(model)) {
    const GgufModel opened(*gguf);
    Tokenizer tokenizer(gguf_tokenizer(opened.keys()), opened.keys().label());
    tokenizer.bos_ = gguf_token(opened.keys(), kGgufBosKey);
    tokenizer.eos_ = gguf_token(opened.keys(), kGgufEosKey);
    return tokenizer;
  }
  const bool folder = std::filesystem::is_directory(model);
  const std::filesystem::path path = folder ? model / "tokenizer.json" : model;
  if (folder && !std::filesystem::exists(path)) {
    fail(
        "{}: no such file; expected the checkpoint's own tokenizer.json and tokenizer_config.json beside "
        "its config.json: fetch them from where that came from",
        path.string());
  }
  const MappedFile file(path);
  Tokenizer tokenizer = parse(text_of(file), path.string());

  const std::filesystem::path config_path = path.parent_path() / "tokenizer_config.json";
  if (!std::filesystem::exists(config_path)) return tokenizer;
  const MappedFile config_file(config_path);
  const Result<Json> parsed = parse_json(text_of(config_file));
  if (!parsed)
    fail("{}: not a JSON object: {}; was the file cut short?", config_path.string(), parsed.error());
  const Json& config = parsed.value();
  if (!config.is_object()) fail("{}: not a JSON object; was the file cut short?", config_path.string());
  tokenizer.bos_ = named_token(config, "bos_token", tokenizer, config_path.string());
  tokenizer.eos_ = named_token(config, "eos_token", tokenizer, config_path.string());
  return tokenizer;
}

template <class Cut>
Result<std::vector<TokenId>> Tokenizer::encode_between(std::string_view text, const Cut& cut) const {
  if (text.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    return failure("text of {} bytes: at most 2 GiB can be encoded at once; split it at a newline",
                   text.size());
  }
  if (const auto invalid = find_invalid_utf8(text)) {
    return failure("text is not valid UTF-8 at byte {} (0x{:02X})", *invalid,
                   static_cast<unsigned char>(text[*invalid]));
  }
  spend_work(kWorkPerByte * std::ssize(text));
  std::vector<TokenId> ids;
  ids.reserve(text.size() / 4 + 8);  // prose has four to five bytes a token
  WordCache cache(text.size());
  BytePairMerger merger(merges_);
  MatchScratch scratch(text.size());
  std::optional<PreTokenizer::GaveUp> gave_up;

  const auto take_token = [&](TokenId id) { ids.push_back(id); };
  const auto merge = [&](std::string_view piece, std::vector<TokenId>& out) { merger.merge(piece, out); };
  const auto take_piece = [&](std::string_view piece) { cache.append(piece, ids, merge); };
  const auto take_text = [&](std::string_view part) {
    if (!gave_up) gave_up = pre_tokenizer_.split(part, scratch, take_piece);
  };
  cut(text, take_token, take_text);
  if (gave_up) return failure("text at byte {}: {}", gave_up->at - text.data(), gave_up->why);
  return ids;
}

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text) const {
  return encode_between(text, [this](std::string_view whole, const auto& take_token, const auto& take_text) {
    cut_at_tokens(whole, exact_, take_token,
                  [&](std::string_view part) { cut_at_tokens(part, normalized_, take_token, take_text); });
  });
}

Result<std::vector<TokenId>> Tokenizer::encode(const MarkedText& text) const {
  return encode_between(text.text,
                        [&](std::string_view whole, const auto& take_token, const auto& take_text) {
                          std::size_t done = 0;
                          for (const TextRange& control : text.controls) {
                            const std::optional<TokenId> id = id_of(text.text_of(control));
                            if (!id) continue;
                            take_text(whole.substr(done, control.begin - done));
                            take_token(*id);
                            done = control.end();
                          }
                          take_text(whole.substr(done));
                        });
}

std::string Tokenizer::decode(std::span<const TokenId> ids) const {
  std::string bytes;
  for (const TokenId id : ids) bytes += bytes_of(id);
  std::string text;
  text.reserve(bytes.size());
  if (append_as_utf8(bytes, text) < bytes.size()) text += kReplacementCharacter;
  return text;
}

std::optional<TokenId> Tokenizer::id_of(std::string_view added_token) const {
  const auto id = exact_.id_of(added_token);
  return id ? id : normalized_.id_of(added_token);
}

}  // namespace baleen
