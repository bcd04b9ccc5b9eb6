#include "generation/generate.h"

#include <algorithm>
#include <chrono>

#include "generation/reply_ending.h"

namespace baleen {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Shows the text of a reply and keeps it.
class ShownText {
 public:
  explicit ShownText(const GenerationCallbacks& callbacks) : callbacks_(callbacks) {}

  void show(const MarkedText& shown) {
    if (shown.text.empty()) return;
    text_ += shown.text;
    if (callbacks_.on_text) callbacks_.on_text(shown.text);
  }
  std::string take() { return std::move(text_); }

 private:
  const GenerationCallbacks& callbacks_;
  std::string text_;
};

/// Feeds tokens and draws the next: by the engine where it chooses and nothing else needs the logits, else
/// from them. A token that the ending forces comes in the place of that one. An engine that runs ahead is fed
/// the next token before it is looked at here, unless that may be a forced one.
class NextToken {
 public:
  NextToken(StepEngine& engine, SequenceId sequence, Sampler& sampler, const ReplyEnding& ending)
      : engine_(engine),
        sequence_(sequence),
        sampler_(sampler),
        ending_(ending),
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
    Result<SampledToken> next = next_of(output.value());
    if (next) engine_.foresee(sequence_, {&next.value().id, 1});
    return next;
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
    if (!last && !ending_.may_force(1)) static_cast<void>(queue(kNoToken));
    const Result<StepOutput> output = engine_.collect();
    --num_ahead_;
    if (!output) return Failure{output.error()};
    return chosen(output.value().chosen.front());
  }
  /// The reply is over: what steps under way choose is not used.
  std::optional<Failure> end() {
    for (; num_ahead_ > 0; --num_ahead_) {
      if (const Result<StepOutput> output = engine_.collect(); !output) return Failure{output.error()};
    }
    return std::nullopt;
  }

 private:
  Result<SampledToken> next_of(const StepOutput& output) {
    if (!output.chosen.empty()) return chosen(output.chosen.front());
    const auto logits = output.logits.row(0);
    if (const auto forced = ending_.forced()) return sampler_.force(logits, *forced);
    return sampler_.sample(logits);
  }
  SampledToken chosen(TokenId by_engine) {
    const TokenId id = ending_.forced().value_or(by_engine);
    sampler_.take(id);
    return {.id = id};
  }

  StepEngine& engine_;
  SequenceId sequence_;
  Sampler& sampler_;
  const ReplyEnding& ending_;
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
  const std::int64_t prompt_end = engine.length(sequence) + result.prompt_tokens;
  const std::int64_t room = std::max<std::int64_t>(limits.context_tokens - prompt_end + 1, 1);
  ReplyEnding ending(tokenizer,
                     {.stops = request.stops,
                      .make_divider = request.make_divider,
                      .stop_tokens = request.stop_tokens,
                      .max_tokens = request.max_tokens > 0 ? std::min(request.max_tokens, room) : room,
                      .thinking = request.thinking,
                      .repetition = request.repetition});
  NextToken next(engine, sequence, sampler, ending);
  const auto chunk = static_cast<std::size_t>(limits.max_batch_tokens);
  engine.foresee(sequence, request.prompt);
  auto prefilled = prefill(next, chunk, request.prompt, callbacks, result.fed_tokens);
  if (!prefilled) return Failure{prefilled.error()};
  if (!prefilled.value()) {
    result.end = ReplyEnd::kCancelled;
    return result;
  }
  ShownText text(callbacks);
  Result<SampledToken> sampled = *prefilled.value();
  auto decode_start = start;
  while (true) {
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
    text.show(ending.take(token));
    if (ending.end()) break;
    if (callbacks.cancelled && callbacks.cancelled()) {
      text.show(ending.finish());
      break;
    }
    sampled = next.after_newest(token, ending.tokens_left() == 1, result.fed_tokens);
  }
  if (auto failed = next.end()) return std::move(*failed);
  result.decode_seconds = seconds_since(decode_start);
  result.end = ending.end().value_or(ReplyEnd::kCancelled);
  result.thinking_end = ending.thinking_end();
  result.text = text.take();
  return result;
}

}  // namespace baleen
