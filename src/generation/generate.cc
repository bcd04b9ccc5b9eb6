#include "generation/generate.h"

#include <algorithm>
#include <chrono>

#include "generation/reply_stream.h"

namespace baleen {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Shows the text of a reply and keeps it.
class ShownText {
 public:
  ShownText(const Tokenizer& tokenizer, const GenerationRequest& request,
            const GenerationCallbacks& callbacks)
      : stream_(tokenizer, request.stops, request.make_divider), callbacks_(callbacks) {}

  /// True when a stop string is complete.
  bool push(TokenId token) {
    show(stream_.push(token).text);
    return stream_.stopped();
  }
  /// True when a stop string was found in what was held back.
  bool finish() {
    const bool was_stopped = stream_.stopped();
    show(stream_.finish().text);
    return !was_stopped && stream_.stopped();
  }
  std::string take() { return std::move(text_); }

 private:
  void show(const std::string& text) {
    if (text.empty()) return;
    text_ += text;
    if (callbacks_.on_text) callbacks_.on_text(text);
  }

  ReplyStream stream_;
  const GenerationCallbacks& callbacks_;
  std::string text_;
};

/// Feeds tokens and draws the next: by the engine where it chooses and nothing else needs the logits, else
/// from them. An engine that runs ahead is fed the next token before it is looked at here.
class NextToken {
 public:
  NextToken(StepEngine& engine, SequenceId sequence, Sampler& sampler)
      : engine_(engine),
        sequence_(sequence),
        sampler_(sampler),
        chooses_(engine.limits().chooses),
        runs_ahead_(engine.limits().runs_ahead && sampler.draw_row(0).has_value()) {}

  /// Tokens whose successor does not matter.
  Result<StepOutput> feed(std::span<const TokenId> tokens) {
    const StepInput input{sequence_, tokens, WantedLogits::kNone};
    return engine_.step({&input, 1});
  }
  Result<SampledToken> after(std::span<const TokenId> tokens) {
    StepInput input{sequence_, tokens, WantedLogits::kLast};
    const std::optional<SampleRow> draw = chooses_ ? sampler_.draw_row(0) : std::nullopt;
    if (draw) input.draws = {&*draw, 1};
    const Result<StepOutput> output = engine_.step({&input, 1});
    if (!output) return Failure{output.error()};
    if (output.value().chosen.empty()) return sampler_.sample(output.value().logits.row(0));
    const TokenId id = output.value().chosen.front();
    sampler_.take(id);
    return SampledToken{.id = id};
  }
  /// The token after `newest`, the last of the reply; `last`: none is wanted after it. Adds to `fed`
  /// what the sequence was fed.
  Result<SampledToken> after_newest(TokenId newest, bool last, std::int64_t& fed) {
    if (!runs_ahead_) {
      ++fed;
      return after({&newest, 1});
    }
    const auto queue = [&](TokenId token) {
      const std::optional<SampleRow> draw = sampler_.draw_row(static_cast<std::uint64_t>(num_ahead_));
      const StepInput input{sequence_, {&token, 1}, WantedLogits::kLast, {&*draw, 1}};
      auto failed = engine_.queue({&input, 1});
      if (!failed) ++num_ahead_, ++fed;
      return failed;
    };
    if (num_ahead_ == 0) {
      if (auto failed = queue(newest)) return std::move(*failed);
    }
    // Without room for the token after it, that one fails when it is wanted.
    if (!last) static_cast<void>(queue(kNoToken));
    const Result<StepOutput> output = engine_.collect();
    --num_ahead_;
    if (!output) return Failure{output.error()};
    const TokenId id = output.value().chosen.front();
    sampler_.take(id);
    return SampledToken{.id = id};
  }
  /// The reply is over: what steps under way choose is not used.
  std::optional<Failure> end() {
    for (; num_ahead_ > 0; --num_ahead_) {
      if (const Result<StepOutput> output = engine_.collect(); !output) return Failure{output.error()};
    }
    return std::nullopt;
  }

 private:
  StepEngine& engine_;
  SequenceId sequence_;
  Sampler& sampler_;
  bool chooses_;
  bool runs_ahead_;
  int num_ahead_ = 0;  ///< steps under way
};

/// Feeds the prompt; the token after it, or nothing when cancelled.
Result<std::optional<SampledToken>> prefill(NextToken& next, std::size_t chunk,
                                            std::span<const TokenId> prompt,
                                            const GenerationCallbacks& callbacks, std::int64_t& fed) {
  std::optional<SampledToken> sampled;
  for (std::size_t begin = 0; begin < prompt.size(); begin += chunk) {
    if (callbacks.cancelled && callbacks.cancelled()) return std::optional<SampledToken>();
    const auto tokens = prompt.subspan(begin, std::min(chunk, prompt.size() - begin));
    if (begin + tokens.size() == prompt.size()) {
      const Result<SampledToken> first = next.after(tokens);
      if (!first) return Failure{first.error()};
      sampled = first.value();
    } else if (const Result<StepOutput> output = next.feed(tokens); !output) {
      return Failure{output.error()};
    }
    fed += static_cast<std::int64_t>(tokens.size());
    if (callbacks.on_prompt) callbacks.on_prompt(fed, static_cast<std::int64_t>(prompt.size()));
  }
  return sampled;
}

}  // namespace

Result<Generated> generate(StepEngine& engine, const Tokenizer& tokenizer, SequenceId sequence,
                           const GenerationRequest& request, const GenerationCallbacks& callbacks) {
  const auto start = Clock::now();
  const EngineLimits limits = engine.limits();
  const std::int64_t vocab_size = limits.vocab_size;
  for (const std::span<const TokenId> ids : {request.history, std::span<const TokenId>(request.prompt)}) {
    const auto wrong = std::ranges::find_if(ids, [&](TokenId id) { return id < 0 || id >= vocab_size; });
    if (wrong != ids.end()) {
      return failure(
          "token id {}: the model's vocabulary has ids 0 to {}; is this tokenizer another model's?", *wrong,
          vocab_size - 1);
    }
  }
  Sampler sampler(request.sampling, static_cast<std::int32_t>(vocab_size));
  sampler.observe_prompt(request.history);
  sampler.observe_prompt(request.prompt);
  Generated result;
  result.seed = sampler.seed();
  result.prompt_tokens = static_cast<std::int64_t>(request.prompt.size());
  NextToken next(engine, sequence, sampler);
  const auto chunk = static_cast<std::size_t>(limits.max_batch_tokens);
  auto prefilled = prefill(next, chunk, request.prompt, callbacks, result.fed_tokens);
  if (!prefilled) return Failure{prefilled.error()};
  ShownText text(tokenizer, request, callbacks);
  if (!prefilled.value()) {
    result.end = ReplyEnd::kCancelled;
    return result;
  }
  Result<SampledToken> sampled = *prefilled.value();
  const std::int64_t room = limits.context_tokens - engine.length(sequence) + 1;
  const std::int64_t most = request.max_tokens > 0 ? std::min(request.max_tokens, room) : room;
  auto decode_start = start;
  while (static_cast<std::int64_t>(result.tokens.size()) < most) {
    if (!sampled) {
      static_cast<void>(next.end());
      return Failure{sampled.error()};
    }
    const TokenId token = sampled.value().id;
    result.tokens.push_back(token);
    if (result.tokens.size() == 1) {
      result.prompt_seconds = seconds_since(start);
      decode_start = Clock::now();
    }
    if (callbacks.on_token) callbacks.on_token(sampled.value());
    if (std::ranges::find(request.stop_tokens, token) != request.stop_tokens.end()) {
      result.end = ReplyEnd::kStopToken;
      break;
    }
    if (text.push(token)) {
      result.end = ReplyEnd::kStopString;
      break;
    }
    if (callbacks.cancelled && callbacks.cancelled()) {
      result.end = ReplyEnd::kCancelled;
      break;
    }
    if (static_cast<std::int64_t>(result.tokens.size()) == most) break;
    const bool last = static_cast<std::int64_t>(result.tokens.size()) + 1 == most;
    sampled = next.after_newest(result.tokens.back(), last, result.fed_tokens);
  }
  if (auto failed = next.end()) return std::move(*failed);
  result.decode_seconds = seconds_since(decode_start);
  if (text.finish() && result.end != ReplyEnd::kCancelled) result.end = ReplyEnd::kStopString;
  result.text = text.take();
  return result;
}

}  // namespace baleen
