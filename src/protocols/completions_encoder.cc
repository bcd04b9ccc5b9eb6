#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/utf8.h"
#include "protocols/completion_envelope.h"
#include "protocols/encoders.h"

namespace baleen {
namespace {

/// A token as this protocol names it: bytes that are no text alone as "bytes:\xe2\x82".
std::string token_name(const std::string& bytes) {
  if (!find_invalid_utf8(bytes)) return bytes;
  std::string name = "bytes:";
  for (const char byte : bytes) name += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  return name;
}

/// Bytes that begin a character; continuation bytes are 10xxxxxx.
std::int64_t num_characters(std::string_view bytes) {
  return std::ranges::count_if(bytes,
                               [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; });
}

/// Parallel lists over tokens, with each one's offset in the text, in characters.
class LegacyLogprobs {
 public:
  void add(const TokenLogprobs& token) {
    const std::string name = token_name(token.token.bytes);
    ReplyJson top = ReplyJson::object();
    top[name] = printable_logprob(token.token.logprob);
    for (const TokenText& other : token.top) top[token_name(other.bytes)] = printable_logprob(other.logprob);
    tokens_.push_back(name);
    token_logprobs_.push_back(token.is_first ? ReplyJson()
                                             : ReplyJson(printable_logprob(token.token.logprob)));
    top_logprobs_.push_back(token.is_first ? ReplyJson() : std::move(top));
    text_offset_.push_back(offset_);
    offset_ += num_characters(token.token.bytes);
  }

  [[nodiscard]] bool empty() const { return tokens_.empty(); }

  ReplyJson take() {
    const auto out = [](ReplyJson& list) { return std::exchange(list, ReplyJson::array()); };
    return {{"tokens", out(tokens_)},
            {"token_logprobs", out(token_logprobs_)},
            {"top_logprobs", out(top_logprobs_)},
            {"text_offset", out(text_offset_)}};
  }

 private:
  ReplyJson tokens_ = ReplyJson::array(), token_logprobs_ = ReplyJson::array(),
            top_logprobs_ = ReplyJson::array(), text_offset_ = ReplyJson::array();
  std::int64_t offset_ = 0;
};

class CompletionsEncoder final : public ReplyEncoder {
 public:
  CompletionsEncoder(const ApiRequest& request, const ReplyIdentity& identity)
      : envelope_(request, identity, "cmpl-", "text_completion"),
        logprobs_(request.logprobs),
        choices_(request.prompts.size() * static_cast<std::size_t>(request.num_choices)) {}

  std::string begin() override { return ""; }

  std::string parts(int choice_idx, const std::vector<ReplyPart>& parts,
                    const std::vector<TokenLogprobs>& logprobs) override {
    Choice& choice = choices_[static_cast<std::size_t>(choice_idx)];
    for (const TokenLogprobs& token : logprobs) choice.logprobs.add(token);
    std::string text;
    for (const ReplyPart& part : parts) text += part.text;
    if (envelope_.streams()) return text.empty() ? "" : chunk(choice_idx, text);
    choice.text += text;
    return "";
  }

  std::string choice_finished(int choice_idx, ReplyEnd end, const std::string& /*stop_string*/) override {
    choices_[static_cast<std::size_t>(choice_idx)].finish_reason = finish_reason(end);
    return envelope_.streams() ? chunk(choice_idx, "", finish_reason(end)) : "";
  }

  std::string finish(const Usage& usage) override {
    if (envelope_.streams()) return envelope_.last_events(usage);
    ReplyJson choices = ReplyJson::array();
    for (Choice& choice : choices_) {
      choices.push_back({{"index", choices.size()},
                         {"text", choice.text},
                         {"logprobs", logprobs_ ? choice.logprobs.take() : ReplyJson()},
                         {"finish_reason", choice.finish_reason}});
    }
    return envelope_.body(std::move(choices), usage);
  }

  std::string failed(const ApiError& error) override { return envelope_.failed(kCompletionsApi, error); }

 private:
  struct Choice {
    std::string text;
    LegacyLogprobs logprobs;  ///< not sent yet
    std::string_view finish_reason = "length";
  };

  std::string chunk(int choice_idx, const std::string& text, std::string_view reason = {}) {
    LegacyLogprobs& logprobs = choices_[static_cast<std::size_t>(choice_idx)].logprobs;
    return envelope_.chunk({{"index", choice_idx},
                            {"text", text},
                            {"logprobs", logprobs.empty() ? ReplyJson() : logprobs.take()},
                            {"finish_reason", reason.empty() ? ReplyJson() : ReplyJson(reason)}});
  }

  CompletionEnvelope envelope_;
  bool logprobs_;
  std::vector<Choice> choices_;
};

}  // namespace

EncoderPointer make_completions_encoder(const ApiRequest& request, const ReplyIdentity& identity,
                                        const Usage& /*at_start*/) {
  return std::make_unique<CompletionsEncoder>(request, identity);
}

}  // namespace baleen
