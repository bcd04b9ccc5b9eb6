#include "tests/scheduler/fake_model.h"

#include <algorithm>

#include "chat/format.h"
#include "generation/repetition_detector.h"
#include "generation/stop_detector.h"
#include "grammar/reply_constraint.h"
#include "tests/tokenizer/small_vocabulary.h"
#include "tokenizer/stream_decoder.h"

namespace baleen {
namespace {

/// How much likelier the letters a to h are; and the tokens that end something.
constexpr double kLetterLogit = 5, kEndLogit = 3;

std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

}  // namespace

const Tokenizer& fake_tokenizer() {
  static const Tokenizer tokenizer = [] {
    nlohmann::json json = small_vocabulary({});
    const auto add = [&](TokenId id, std::string_view text, bool special) {
      json["added_tokens"].push_back(added_token(id, std::string(text), special, /*normalized=*/false));
    };
    add(kEndToken, chat_format::kEos, /*special=*/true);
    add(kEndThinkToken, chat_format::kEndThink, /*special=*/false);
    return Tokenizer::parse(json.dump(), "fake");
  }();
  return tokenizer;
}

History after(History history, TokenId token) {
  return mixed(history + 0x9E3779B97F4A7C15 * (static_cast<std::uint64_t>(token) + 1));
}

History after(History history, std::span<const TokenId> tokens) {
  for (const TokenId token : tokens) history = after(history, token);
  return history;
}

double fake_chance(History history, std::uint64_t what) {
  return static_cast<double>(mixed(history ^ mixed(what)) >> 11) * 0x1p-53;
}

void fake_logits(History history, std::span<float> logits) {
  for (std::size_t id = 0; id < logits.size(); ++id) {
    const bool letter = id >= 'a' && id <= 'h', end = id == kEndThinkToken || id == '"' || id == '}';
    logits[id] = static_cast<float>(6 * fake_chance(history, id) + (letter ? kLetterLogit
                                                                    : end  ? kEndLogit
                                                                           : 0));
  }
}

ReplyRules json_rules(bool starts_in_reasoning) {
  return {.starts_in_reasoning = starts_in_reasoning,
          .body = ReplyRules::Body::kGrammar,
          .grammar = json_object_grammar()};
}

ExpectedReply expected_reply(const Request& request, std::int64_t context_tokens) {
  ExpectedReply reply;
  Sampler sampler(request.sampling, kFakeVocab);
  sampler.observe_prompt(request.prompt);
  static const auto vocabulary = make_mask_vocabulary(fake_tokenizer(), kFakeVocab);
  std::optional<ReplyConstraint> constraint;
  if (request.rules) constraint.emplace(*request.rules, vocabulary);
  StreamDecoder decoder(fake_tokenizer());
  StopDetector stops(request.stops);
  std::optional<RepetitionDetector> repetition;
  if (request.repetition) repetition.emplace(*request.repetition);
  bool thinks = request.thinking.has_value(), loops = false;
  const std::int64_t room = context_tokens - std::ssize(request.prompt) + 1;
  const std::int64_t most = request.max_tokens > 0 ? std::min(request.max_tokens, room) : room;
  History history = after(kNoHistory, request.prompt);
  std::vector<float> logits(kFakeVocab);
  TokenMask mask;
  while (std::ssize(reply.tokens) < most) {
    fake_logits(history, logits);
    const bool is_forced = thinks && (loops || request.thinking->budget == std::ssize(reply.tokens));
    const bool masked = !is_forced && constraint && constraint->fill(mask);
    const TokenId token = is_forced ? sampler.force(logits, request.thinking->end_token).value().id
                                    : sampler.sample(logits, masked ? mask : TokenMask()).value().id;
    if (is_forced) decoder.drop_unfinished();
    if (thinks && token == request.thinking->end_token) {
      reply.thinking_end = !is_forced ? ThinkingEnd::kModel
                           : loops    ? ThinkingEnd::kRepetition
                                      : ThinkingEnd::kBudget;
      thinks = false;
      if (repetition) repetition->restart();
    }
    if (std::ranges::find(request.stop_tokens, token) != request.stop_tokens.end()) {
      reply.end = ReplyEnd::kStopToken;
      break;
    }
    if (constraint) constraint->accept(token);
    reply.tokens.push_back(token);
    history = after(history, token);
    reply.text += stops.feed(decoder.push(token));
    if (stops.stopped()) {
      reply.end = ReplyEnd::kStopString;
      reply.stop_string = request.stops[stops.stop_idx()];
      return reply;
    }
    loops = repetition && repetition->add(token, has_letter(fake_tokenizer().bytes_of(token)));
    if (loops && !thinks) {
      reply.end = ReplyEnd::kRepetition;
      break;
    }
  }
  reply.text += stops.feed(decoder.finish());
  reply.text += stops.finish();
  return reply;
}

}  // namespace baleen
