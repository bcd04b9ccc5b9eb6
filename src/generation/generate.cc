#include "generation/generate.h"

#include <algorithm>
#include <chrono>

#include "generation/stop_detector.h"
#include "tokenizer/stream_decoder.h"

namespace baleen {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// The text side of a reply: bytes to characters to what no stop string can take back.
class TextStream {
 public:
  TextStream(const Tokenizer& tokenizer, const GenerationRequest& request,
             const GenerationCallbacks& callbacks)
      : decoder_(tokenizer), stops_(request.stops), callbacks_(callbacks) {}

  /// True when a stop string is complete.
  bool push(TokenId token) {
    show(stops_.feed(decoder_.push(token)));
    return stops_.stopped();
  }
  std::string finish() {
    if (!stops_.stopped()) show(stops_.feed(decoder_.finish()));
    if (!stops_.stopped()) show(stops_.finish());
    return std::move(text_);
  }

 private:
  void show(const std::string& text) {
    if (text.empty()) return;
    text_ += text;
    if (callbacks_.on_text) callbacks_.on_text(text);
  }

  StreamDecoder decoder_;
  StopDetector stops_;
  const GenerationCallbacks& callbacks_;
  std::string text_;
};

/// Feeds the prompt; logits of its last token, or nothing when cancelled.
Result<std::optional<std::span<const float>>> prefill(Engine& engine, SequenceId sequence,
                                                      std::span<const TokenId> prompt,
                                                      const GenerationCallbacks& callbacks,
                                                      std::int64_t& fed) {
  const auto chunk = static_cast<std::size_t>(engine.options().max_batch_tokens);
  std::span<const float> logits;
  for (std::size_t begin = 0; begin < prompt.size(); begin += chunk) {
    if (callbacks.cancelled && callbacks.cancelled()) return std::optional<std::span<const float>>();
    const auto tokens = prompt.subspan(begin, std::min(chunk, prompt.size() - begin));
    const bool last = begin + tokens.size() == prompt.size();
    const StepInput input{sequence, tokens, last ? WantedLogits::kLast : WantedLogits::kNone};
    const Result<StepOutput> output = engine.step({&input, 1});
    if (!output) return Failure{output.error()};
    fed += static_cast<std::int64_t>(tokens.size());
    if (callbacks.on_prompt) callbacks.on_prompt(fed, static_cast<std::int64_t>(prompt.size()));
    if (last) logits = output.value().logits.row(0);
  }
  return std::optional(logits);
}

}  // namespace

Result<Generated> generate(Engine& engine, const Tokenizer& tokenizer, SequenceId sequence,
                           const GenerationRequest& request, const GenerationCallbacks& callbacks) {
  const auto start = Clock::now();
  Sampler sampler(request.sampling, static_cast<std::int32_t>(engine.config().vocab_size));
  sampler.observe_prompt(request.history);
  sampler.observe_prompt(request.prompt);
  Generated result;
  result.seed = sampler.seed();
  result.prompt_tokens = static_cast<std::int64_t>(request.prompt.size());
  auto prefilled = prefill(engine, sequence, request.prompt, callbacks, result.fed_tokens);
  if (!prefilled) return Failure{prefilled.error()};
  TextStream text(tokenizer, request, callbacks);
  if (!prefilled.value()) {
    result.reason = FinishReason::kCancelled;
    return result;
  }
  std::span<const float> logits = *prefilled.value();
  const std::int64_t room = engine.context_tokens() - engine.length(sequence) + 1;
  const std::int64_t most = request.max_tokens > 0 ? std::min(request.max_tokens, room) : room;
  auto decode_start = start;
  while (static_cast<std::int64_t>(result.tokens.size()) < most) {
    Result<SampledToken> sampled = sampler.sample(logits);
    if (!sampled) return Failure{sampled.error()};
    const TokenId token = sampled.value().id;
    result.tokens.push_back(token);
    if (result.tokens.size() == 1) {
      result.prompt_seconds = seconds_since(start);
      decode_start = Clock::now();
    }
    if (callbacks.on_token) callbacks.on_token(sampled.value());
    if (std::ranges::find(request.stop_tokens, token) != request.stop_tokens.end()) {
      result.reason = FinishReason::kStopToken;
      break;
    }
    if (text.push(token)) {
      result.reason = FinishReason::kStopString;
      break;
    }
    if (callbacks.cancelled && callbacks.cancelled()) {
      result.reason = FinishReason::kCancelled;
      break;
    }
    if (static_cast<std::int64_t>(result.tokens.size()) == most) break;
    const StepInput input{sequence, {&result.tokens.back(), 1}, WantedLogits::kLast};
    const Result<StepOutput> output = engine.step({&input, 1});
    if (!output) return Failure{output.error()};
    ++result.fed_tokens;
    logits = output.value().logits.row(0);
  }
  result.decode_seconds = seconds_since(decode_start);
  result.text = text.finish();
  return result;
}

}  // namespace baleen
