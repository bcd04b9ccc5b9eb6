// Replies of the bundled model: when they end, what they show, and that the same request gives the same
// reply.
#include "generation/generate.h"

#include <gtest/gtest.h>

#include "engine/engine.h"
#include "tests/support/test_device.h"

namespace baleen {
namespace {

constexpr TokenId kEos = 1;

class Generate : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    tokenizer_ = new Tokenizer(Tokenizer::load("models/stories"));
    engine_ = new Engine(
        "models/stories",
        {.device = test::device(), .num_threads = 2, .max_batch_tokens = 512, .cache_tokens = 512});
  }
  static void TearDownTestSuite() {
    delete engine_;
    delete tokenizer_;
  }

  static GenerationRequest greedy(std::int64_t max_tokens) {
    GenerationRequest request;
    request.prompt = tokenizer_->encode("<｜begin▁of▁sentence｜>Once upon a time").value();
    request.sampling.temperature = 0;
    request.stop_tokens = {kEos};
    request.max_tokens = max_tokens;
    return request;
  }
  static Result<Generated> try_reply(Engine& engine, const GenerationRequest& request,
                                     const GenerationCallbacks& callbacks = {}) {
    const SequenceId sequence = *engine.open({});
    Result<Generated> generated = generate(engine, *tokenizer_, sequence, request, callbacks);
    if (generated) {
      EXPECT_EQ(engine.length(sequence), generated.value().fed_tokens);
    }
    engine.close(sequence, false);
    return generated;
  }
  static Generated reply(const GenerationRequest& request, const GenerationCallbacks& callbacks = {}) {
    return try_reply(*engine_, request, callbacks).value();
  }

  static Tokenizer* tokenizer_;
  static Engine* engine_;
};

Tokenizer* Generate::tokenizer_ = nullptr;
Engine* Generate::engine_ = nullptr;

TEST_F(Generate, GreedyRepliesAreTheSameEveryTimeAndShowEveryToken) {
  const GenerationRequest request = greedy(40);
  std::string streamed;
  std::vector<TokenId> seen;
  std::vector<std::int64_t> progress;
  const Generated first =
      reply(request, {.on_text = [&](std::string_view text) { streamed += text; },
                      .on_token = [&](const SampledToken& token) { seen.push_back(token.id); },
                      .on_prompt = [&](std::int64_t done, std::int64_t) { progress.push_back(done); }});
  EXPECT_EQ(first.end, ReplyEnd::kLength);
  EXPECT_EQ(first.tokens.size(), 40u);
  EXPECT_EQ(first.text, tokenizer_->decode(first.tokens));
  EXPECT_EQ(streamed, first.text);
  EXPECT_EQ(seen, first.tokens);
  const auto prompt_tokens = static_cast<std::int64_t>(request.prompt.size());
  EXPECT_EQ(progress, std::vector<std::int64_t>{prompt_tokens});
  EXPECT_EQ(first.prompt_tokens, prompt_tokens);
  EXPECT_EQ(first.fed_tokens, prompt_tokens + 39);  // the last token was sampled, not fed
  EXPECT_EQ(reply(request).tokens, first.tokens);
}

TEST_F(Generate, PromptChunksDoNotShow) {
  GenerationRequest request = greedy(30);
  request.sampling.temperature = 0.9;
  request.sampling.seed = 11;
  const Generated whole = reply(request);
  for (const std::int64_t chunk : {1, 3}) {
    Engine engine(
        "models/stories",
        {.device = test::device(), .num_threads = 1, .max_batch_tokens = chunk, .cache_tokens = 256});
    EXPECT_EQ(try_reply(engine, request).value().tokens, whole.tokens) << "chunks of " << chunk;
  }
}

TEST_F(Generate, SameSeedSameTextOtherSeedOtherText) {
  GenerationRequest request = greedy(30);
  request.sampling.temperature = 1.0;
  request.sampling.seed = 1;
  const Generated first = reply(request);
  EXPECT_EQ(first.seed, 1u);
  EXPECT_EQ(reply(request).tokens, first.tokens);
  request.sampling.seed = 2;
  EXPECT_NE(reply(request).tokens, first.tokens);
  // A seed that the system gave is reported, and repeats the text.
  request.sampling.seed.reset();
  const Generated drawn = reply(request);
  request.sampling.seed = drawn.seed;
  EXPECT_EQ(reply(request).tokens, drawn.tokens);
}

TEST_F(Generate, StopStringsMaySpanTokensAndAreNotShown) {
  const Generated free = reply(greedy(40));
  // From the middle of one token to the middle of the token after next.
  const std::size_t before = tokenizer_->decode(std::span(free.tokens).first(20)).size();
  const std::size_t length = tokenizer_->decode(std::span(free.tokens).subspan(20, 3)).size();
  const std::string stop = free.text.substr(before + 1, length - 2);
  GenerationRequest request = greedy(40);
  request.stops = {"no such words", stop};
  std::string streamed;
  const Generated stopped = reply(request, {.on_text = [&](std::string_view text) { streamed += text; }});
  EXPECT_EQ(stopped.end, ReplyEnd::kStopString);
  EXPECT_EQ(stopped.text, free.text.substr(0, free.text.find(stop)));
  EXPECT_EQ(streamed, stopped.text);
  EXPECT_LE(stopped.tokens.size(), 23u);
}

TEST_F(Generate, TextThatMightHaveBegunAStopStringIsShownAtTheEnd) {
  const Generated free = reply(greedy(12));
  GenerationRequest request = greedy(12);
  request.stops = {free.text.substr(free.text.size() - 3) + " and what never comes"};
  EXPECT_EQ(reply(request).text, free.text);
}

TEST_F(Generate, StopTokensEndTheReplyAndAreNotShown) {
  const Generated free = reply(greedy(20));
  GenerationRequest request = greedy(20);
  request.stop_tokens = {free.tokens[9]};
  const auto at =
      static_cast<std::size_t>(std::ranges::find(free.tokens, free.tokens[9]) - free.tokens.begin());
  const Generated stopped = reply(request);
  EXPECT_EQ(stopped.end, ReplyEnd::kStopToken);
  EXPECT_EQ(stopped.tokens.size(), at + 1);
  EXPECT_EQ(stopped.text, tokenizer_->decode(std::span(free.tokens).first(at)));
}

TEST_F(Generate, AStoryEndsByItself) {
  GenerationRequest request = greedy(0);
  request.sampling.temperature = 0.8;
  request.sampling.seed = 5;
  const Generated story = reply(request);
  EXPECT_EQ(story.end, ReplyEnd::kStopToken);
  EXPECT_EQ(story.tokens.back(), kEos);
  EXPECT_GT(story.text.size(), 200u);
}

TEST_F(Generate, CancelledWhileReadingThePrompt) {
  Engine engine("models/stories",
                {.device = test::device(), .num_threads = 1, .max_batch_tokens = 2, .cache_tokens = 256});
  std::int64_t fed = 0;
  bool anything = false;
  const Generated cancelled = try_reply(engine, greedy(40),
                                        {.on_text = [&](std::string_view) { anything = true; },
                                         .on_token = [&](const SampledToken&) { anything = true; },
                                         .on_prompt = [&](std::int64_t done, std::int64_t) { fed = done; },
                                         .cancelled = [&] { return fed >= 4; }})
                                  .value();
  EXPECT_EQ(cancelled.end, ReplyEnd::kCancelled);
  EXPECT_EQ(cancelled.fed_tokens, 4);
  EXPECT_TRUE(cancelled.tokens.empty());
  EXPECT_FALSE(anything);
}

TEST_F(Generate, CancelledInTheReplyKeepsWhatWasSaid) {
  const Generated free = reply(greedy(20));
  std::size_t count = 0;
  const Generated cancelled = reply(greedy(20), {.on_token = [&](const SampledToken&) { ++count; },
                                                 .cancelled = [&] { return count == 7; }});
  EXPECT_EQ(cancelled.end, ReplyEnd::kCancelled);
  EXPECT_EQ(cancelled.tokens, std::vector<TokenId>(free.tokens.begin(), free.tokens.begin() + 7));
  EXPECT_EQ(cancelled.text, tokenizer_->decode(cancelled.tokens));
}

TEST_F(Generate, EndsWhereTheContextEnds) {
  Engine engine("models/stories",
                {.device = test::device(), .num_threads = 2, .max_batch_tokens = 256, .cache_tokens = 256});
  GenerationRequest request = greedy(0);
  request.stop_tokens.clear();
  while (request.prompt.size() < 250) request.prompt.push_back(request.prompt[request.prompt.size() - 4]);
  const Generated to_the_end = try_reply(engine, request).value();
  EXPECT_EQ(to_the_end.end, ReplyEnd::kLength);
  EXPECT_EQ(to_the_end.tokens.size(), 7u);  // six are fed, the seventh is only said
  EXPECT_EQ(to_the_end.fed_tokens, 256);
  request.max_tokens = 3;
  EXPECT_EQ(try_reply(engine, request).value().tokens.size(), 3u);
  request.prompt.resize(257, request.prompt[1]);
  EXPECT_FALSE(try_reply(engine, request));
}

TEST_F(Generate, RunsAheadOfTheHostWithTheSameReply) {
  const auto engine_that = [](bool chooses) {
    return Engine("models/stories", {.device = test::device(),
                                     .num_threads = 2,
                                     .max_batch_tokens = 512,
                                     .cache_tokens = 512,
                                     .choose_on_device = chooses});
  };
  Engine ahead = engine_that(true), waiting = engine_that(false);
  for (const double temperature : {0.0, 0.9}) {
    GenerationRequest request = greedy(40);
    request.sampling.temperature = temperature;
    request.sampling.seed = 11;
    const Generated want = try_reply(waiting, request).value();
    const SequenceId sequence = *ahead.open({});
    std::int64_t num_tokens = 0, num_ahead = 0;
    const auto on_token = [&](const SampledToken&) {
      // The sequence was fed a token that was not reported yet.
      const std::int64_t heard = static_cast<std::int64_t>(request.prompt.size()) + num_tokens++;
      if (ahead.length(sequence) > heard) ++num_ahead;
    };
    const Generated got = generate(ahead, *tokenizer_, sequence, request, {.on_token = on_token}).value();
    EXPECT_EQ(got.tokens, want.tokens);
    EXPECT_EQ(got.text, want.text);
    EXPECT_EQ(got.fed_tokens, want.fed_tokens);
    EXPECT_EQ(num_ahead, 38);  // all but the prompt's own and the last
    ahead.close(sequence, false);
  }
}

TEST_F(Generate, ForcedTokensAreTheSameForAnEngineThatRunsAhead) {
  const TokenId end_think = *tokenizer_->id_of("</think>");
  const auto engine_that = [](bool chooses) {
    return Engine("models/stories", {.device = test::device(),
                                     .num_threads = 2,
                                     .max_batch_tokens = 512,
                                     .cache_tokens = 512,
                                     .choose_on_device = chooses});
  };
  Engine ahead = engine_that(true), waiting = engine_that(false);
  GenerationRequest request = greedy(40);
  for (const std::int64_t budget : {0, 1, 7, 39}) {
    request.thinking = ThinkingLimits{.end_token = end_think, .budget = budget};
    const Generated want = try_reply(waiting, request).value(), got = try_reply(ahead, request).value();
    ASSERT_EQ(want.tokens.size(), 40u);
    EXPECT_EQ(want.tokens[static_cast<std::size_t>(budget)], end_think);
    EXPECT_EQ(std::ranges::count(want.tokens, end_think), 1);
    EXPECT_EQ(want.thinking_end, ThinkingEnd::kBudget);
    EXPECT_EQ(got.tokens, want.tokens) << budget;
    EXPECT_EQ(got.text, want.text);
    EXPECT_EQ(got.fed_tokens, want.fed_tokens);
  }
  // What is there is liked better, so that it loops: in the thinking, and then in the content.
  request.sampling.repetition_penalty = 0.05;
  request.thinking = ThinkingLimits{.end_token = end_think};
  request.repetition = RepetitionLimits{.min_tokens = 1, .min_count = 2};
  const Generated want = try_reply(waiting, request).value(), got = try_reply(ahead, request).value();
  EXPECT_EQ(want.thinking_end, ThinkingEnd::kRepetition);
  EXPECT_EQ(want.end, ReplyEnd::kRepetition);
  EXPECT_EQ(got.tokens, want.tokens);
  EXPECT_EQ(got.text, want.text);
}

TEST_F(Generate, RunsAheadPastAnEndThatOnlyTheTextShows) {
  Engine engine("models/stories", {.device = test::device(),
                                   .num_threads = 2,
                                   .max_batch_tokens = 512,
                                   .cache_tokens = 512,
                                   .choose_on_device = true});
  GenerationRequest request = greedy(40);
  request.stop_tokens = {reply(greedy(20)).tokens[9]};
  const Generated want = reply(request), got = try_reply(engine, request).value();
  EXPECT_EQ(got.end, ReplyEnd::kStopToken);
  EXPECT_EQ(got.tokens, want.tokens);
  EXPECT_EQ(try_reply(engine, greedy(20)).value().text, reply(greedy(20)).text);  // nothing is left under way
}

TEST_F(Generate, EarlierTokensCountForTheRepetitionPenalty) {
  GenerationRequest request = greedy(10);
  request.sampling.repetition_penalty = 3.0;
  const Generated without = reply(request);
  const std::vector<TokenId> history = without.tokens;
  request.history = history;
  EXPECT_NE(reply(request).tokens, without.tokens);
}

TEST_F(Generate, LogprobsComeWithTheTokens) {
  GenerationRequest request = greedy(5);
  request.sampling.num_logprobs = 2;
  reply(request, {.on_token = [](const SampledToken& token) {
          ASSERT_TRUE(token.logprob.has_value());
          ASSERT_EQ(token.top_logprobs.size(), 2u);
          EXPECT_EQ(token.top_logprobs[0].id, token.id);  // greedy
          EXPECT_EQ(token.top_logprobs[0].logprob, *token.logprob);
        }});
}

}  // namespace
}  // namespace baleen
