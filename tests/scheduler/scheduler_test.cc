#include "scheduler/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <stdexcept>

#include "chat/format.h"
#include "tests/scheduler/scheduler_world.h"
#include "tests/tokenizer/small_vocabulary.h"

namespace baleen {
namespace {

Request greedy(std::vector<TokenId> prompt, std::int64_t max_tokens) {
  return {.prompt = std::move(prompt), .sampling = {.temperature = 0}, .max_tokens = max_tokens};
}

Request sampled(std::vector<TokenId> prompt, const SamplingParams& sampling, std::int64_t max_tokens) {
  Request request = greedy(std::move(prompt), max_tokens);
  request.sampling = sampling;
  return request;
}

TEST(Scheduler, RepliesAsALoopThatTakesOneTokenAfterTheOther) {
  std::vector<Request> requests{greedy(prompt_of(5, 1), 12), greedy(prompt_of(1, 2), 1)};
  requests.push_back(sampled(prompt_of(700, 3), {.seed = 5}, 40));
  requests.push_back(sampled(prompt_of(256, 4), {.top_p = 0.9, .seed = 6}, 90));
  requests.back().stop_tokens = {'c'};
  requests.push_back(sampled(prompt_of(30, 5), {.seed = 7}, 200));
  requests.back().stops = {"ab", "dd"};
  requests.push_back(sampled(
      prompt_of(30, 6),
      {.repetition_penalty = 1.2, .presence_penalty = 0.5, .seed = 8, .logit_bias = {{'z', 8.0}}}, 60));
  SchedulerWorld world;
  std::vector<SchedulerWorld::Submitted> replies;
  for (const Request& request : requests) replies.push_back(world.submit(request));
  world.finish();
  for (std::size_t i = 0; i < replies.size(); ++i) {
    SCOPED_TRACE(i);
    expect_reply(*replies[i].reply, expected_reply(requests[i], world.engine.limits().context_tokens));
  }
  EXPECT_EQ(replies[3].reply->summary->end, ReplyEnd::kStopToken);
  EXPECT_EQ(replies[4].reply->summary->end, ReplyEnd::kStopString);
  world.expect_everything_came_back();
}

/// An engine hears of every token of a reply that it will be fed before the step is planned.
TEST(Scheduler, TellsTokensAsSoonAsTheyAreChosen) {
  for (const std::int64_t num_drafts : {0, 3}) {
    SchedulerOptions options;
    options.speculate = num_drafts;
    SchedulerWorld world({}, options);
    std::int64_t num_fed = 0;  // parts of steps that begin with a token of a reply
    world.engine.on_step = [&](const std::vector<FakeStepPart>& parts) -> std::string {
      for (const FakeStepPart& part : parts)
        if (part.start >= 20) ++num_fed;
      return "";
    };
    for (const std::uint64_t family : {1, 2, 3})
      static_cast<void>(world.submit(greedy(prompt_of(20, family), 30)));
    world.finish();
    EXPECT_GT(num_fed, 0);
    EXPECT_EQ(world.engine.num_foreseen, num_fed);
  }
}

TEST(Scheduler, RulesHoldWhateverIsSampled) {
  SchedulerWorld world;
  std::vector<SchedulerWorld::Submitted> replies;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Request request = sampled(prompt_of(10, seed), {.seed = seed}, 2000);
    request.rules = json_rules(/*starts_in_reasoning=*/seed % 2 == 1);
    request.stop_tokens = {kEndToken};
    replies.push_back(world.submit(request));
  }
  world.finish();
  int num_complete = 0;
  for (const auto& [id, reply] : replies) {
    if (reply->summary->end != ReplyEnd::kStopToken) continue;
    ++num_complete;
    const std::size_t reasoning = reply->text.find(chat_format::kEndThink);
    const std::string body = reasoning == std::string::npos
                                 ? reply->text
                                 : reply->text.substr(reasoning + chat_format::kEndThink.size());
    EXPECT_TRUE(nlohmann::json::accept(body)) << body;
  }
  EXPECT_GT(num_complete, 5);
}

TEST(Scheduler, RulesWantATokenizerThatHasTheTokensForThem) {
  const Tokenizer plain = Tokenizer::parse(small_vocabulary({}).dump(), "plain");
  FakeEngine engine({});
  Scheduler scheduler(engine, plain, {}, [] { return 0.0; });
  auto ruled = std::make_shared<RecordedReply>(), free = std::make_shared<RecordedReply>();
  Request request = greedy({1}, 3);
  EXPECT_TRUE(scheduler.submit(request, free).has_value());
  request.rules = json_rules(false);
  EXPECT_TRUE(scheduler.submit(request, ruled).has_value());
  while (scheduler.turn()) {
  }
  EXPECT_EQ(ruled->summary->end, ReplyEnd::kFailed);
  EXPECT_NE(ruled->summary->error.find("the tokenizer names no end token"), std::string::npos);
  EXPECT_EQ(free->tokens.size(), 3u);
}

TEST(Scheduler, FillsTheContextAndNotMore) {
  SchedulerWorld world({.pools = {.num_pages = 2}});
  const Request endless = greedy(prompt_of(500, 1), 0), brimful = greedy(prompt_of(512, 2), 0);
  const auto first = world.submit(endless), second = world.submit(brimful);
  const auto too_long = world.submit(greedy(prompt_of(513, 3), 5));
  world.finish();
  expect_reply(*first.reply, expected_reply(endless, 512));
  EXPECT_EQ(first.reply->tokens.size(), 13u);
  expect_reply(*second.reply, expected_reply(brimful, 512));
  EXPECT_EQ(second.reply->tokens.size(), 1u);
  EXPECT_EQ(too_long.reply->summary->end, ReplyEnd::kFailed);
  EXPECT_EQ(too_long.reply->summary->error,
            "the prompt has 513 tokens, and the context holds 512; shorten the prompt");
}

TEST(Scheduler, RefusesWhatCanNeverRunAlone) {
  SchedulerWorld world;
  const auto empty = world.submit(greedy({}, 3)), foreign = world.submit(greedy({1, kFakeVocab}, 3)),
             negative = world.submit(greedy({-1}, 3)),
             hot = world.submit(sampled({1}, {.temperature = -1}, 3)), good = world.submit(greedy({1}, 3));
  world.finish();
  EXPECT_EQ(empty.reply->summary->error, "the prompt is empty; it must have at least one token");
  EXPECT_EQ(foreign.reply->summary->error,
            "the prompt has token 259; ids of this vocabulary run from 0 to 258");
  EXPECT_EQ(negative.reply->summary->error,
            "the prompt has token -1; ids of this vocabulary run from 0 to 258");
  EXPECT_EQ(hot.reply->summary->end, ReplyEnd::kFailed);
  EXPECT_EQ(good.reply->tokens.size(), 3u);
  EXPECT_EQ(world.scheduler.stats().failed, 4);
  EXPECT_EQ(world.scheduler.stats().finished, 1);
}

TEST(Scheduler, ReportsLogprobsAndTimes) {
  SchedulerWorld world({.pools = {.max_sequences = 1}});
  Request request = greedy(prompt_of(600, 1), 4);
  request.sampling.num_logprobs = 3;
  const auto first = world.submit(request), second = world.submit(greedy({1}, 2));
  world.finish();
  for (const ReplyToken& token : first.reply->tokens) {
    ASSERT_TRUE(token.logprob.has_value());
    ASSERT_EQ(token.top_logprobs.size(), 3u);
    EXPECT_EQ(token.top_logprobs[0].id, token.id);
    EXPECT_EQ(token.top_logprobs[0].logprob, *token.logprob);
  }
  // Two turns for the prompt, three more for the other tokens; the clock ticks before each.
  EXPECT_EQ(first.reply->summary->queue_seconds, 1);
  EXPECT_EQ(first.reply->summary->first_token_seconds, 2);
  EXPECT_EQ(first.reply->summary->total_seconds, 5);
  EXPECT_EQ(first.reply->summary->steps, 3);
  EXPECT_EQ(second.reply->summary->queue_seconds, 6);
  EXPECT_FALSE(second.reply->tokens[0].logprob.has_value());
}

TEST(Scheduler, EqualsGoFirstComeFirstServedAndPriorityGoesFirst) {
  SchedulerWorld world({.pools = {.max_sequences = 1}});
  std::vector<int> order;
  const auto submit = [&](int name, int priority) {
    Request request = greedy(prompt_of(10, static_cast<std::uint64_t>(name)), 3);
    request.priority = priority;
    world.submit(std::move(request)).reply->on_finished = [&order, name] { order.push_back(name); };
  };
  submit(0, 0);
  submit(1, 0);
  submit(2, 5);
  submit(3, -5);
  submit(4, 5);
  submit(5, 0);
  world.finish();
  EXPECT_EQ(order, (std::vector<int>{2, 4, 0, 1, 5, 3}));
}

TEST(Scheduler, HigherPriorityTakesTheSlotOfALowerOne) {
  SchedulerWorld world({.pools = {.max_sequences = 1}});
  const Request low = greedy(prompt_of(10, 1), 50);
  Request high = greedy(prompt_of(10, 2), 3);
  high.priority = 1;
  const auto slow = world.submit(low);
  for (int i = 0; i < 5; ++i) world.scheduler.turn();
  const auto urgent = world.submit(high);
  for (int i = 0; i < 3; ++i) world.scheduler.turn();
  EXPECT_TRUE(urgent.reply->summary.has_value());
  EXPECT_FALSE(slow.reply->summary.has_value());
  world.finish();
  expect_reply(*slow.reply, expected_reply(low, 256000));
  EXPECT_EQ(slow.reply->summary->preemptions, 1);
  EXPECT_EQ(world.scheduler.stats().preemptions, 1);
  // What was chosen before the preemption is no part of the prompt.
  EXPECT_EQ(world.engine.opened_prompts, (std::vector<std::int64_t>{10, 10, 10}));
}

TEST(Scheduler, NobodyYieldsToWhatWouldNotFitAnyway) {
  SchedulerWorld world({.pools = {.num_pages = 8}});
  Request large = greedy(prompt_of(1400, 1), 100), small = greedy(prompt_of(300, 2), 100);
  large.priority = 2;
  Request waiting = greedy(prompt_of(1000, 3), 2);
  waiting.priority = 1;
  const auto first = world.submit(large), second = world.submit(small);
  for (int i = 0; i < 5; ++i) world.scheduler.turn();
  const auto third = world.submit(waiting);  // six pages are taken by a more important one
  world.finish();
  EXPECT_EQ(second.reply->summary->preemptions, 0);
  EXPECT_GE(third.reply->summary->first_token_seconds, 100);
  EXPECT_EQ(first.reply->tokens.size() + second.reply->tokens.size() + third.reply->tokens.size(), 202u);
}

TEST(Scheduler, FullQueueRefuses) {
  SchedulerWorld world({.pools = {.max_sequences = 1}}, {.max_queue = 3});
  for (std::uint64_t i = 0; i < 3; ++i) world.submit(greedy(prompt_of(3, i), 4));
  EXPECT_FALSE(world.scheduler.submit(greedy({1}, 1), std::make_shared<RecordedReply>()).has_value());
  world.scheduler.turn();  // one runs now
  world.submit(greedy({1}, 1));
  EXPECT_FALSE(world.scheduler.submit(greedy({1}, 1), std::make_shared<RecordedReply>()).has_value());
  EXPECT_EQ(world.scheduler.stats().refused, 2);
  EXPECT_EQ(world.scheduler.stats().waiting, 3);
  EXPECT_EQ(world.scheduler.stats().running, 1);
  world.finish();
  EXPECT_EQ(world.scheduler.stats().finished, 4);
}

TEST(Scheduler, CancelsTakeEffectAtTheNextTurnWhereverTheRequestIs) {
  SchedulerWorld world({.pools = {.max_sequences = 1}});
  const auto running = world.submit(greedy(prompt_of(300, 1), 1000)), waiting = world.submit(greedy({1}, 9)),
             last = world.submit(greedy({2}, 3));
  for (int i = 0; i < 4; ++i) world.scheduler.turn();
  world.scheduler.cancel(running.id);
  world.scheduler.cancel(waiting.id);
  world.scheduler.cancel(RequestId{12345});
  EXPECT_FALSE(running.reply->summary.has_value());
  world.scheduler.turn();
  EXPECT_EQ(running.reply->summary->end, ReplyEnd::kCancelled);
  EXPECT_EQ(running.reply->summary->reply_tokens, 4);
  EXPECT_EQ(waiting.reply->summary->end, ReplyEnd::kCancelled);
  EXPECT_EQ(waiting.reply->tokens.size(), 0u);
  EXPECT_EQ(world.scheduler.stats().running, 1);
  world.scheduler.cancel(running.id);  // ended: ignored
  world.finish();
  EXPECT_EQ(last.reply->tokens.size(), 3u);
  EXPECT_EQ(world.scheduler.stats().cancelled, 2);
  world.expect_everything_came_back();
}

TEST(Scheduler, SinkThatThrowsIsCancelledAlone) {
  SchedulerWorld world;
  const auto bad = world.submit(greedy(prompt_of(5, 1), 9)), good = world.submit(greedy(prompt_of(5, 2), 9));
  bad.reply->on_piece = [] { throw std::runtime_error("closed"); };
  bad.reply->on_finished = [] { throw std::runtime_error("still closed"); };
  world.finish();
  EXPECT_EQ(bad.reply->summary->end, ReplyEnd::kCancelled);
  EXPECT_EQ(bad.reply->tokens.size(), 1u);
  EXPECT_EQ(good.reply->tokens.size(), 9u);
}

TEST(Scheduler, SinkMaySubmitAndCancel) {
  SchedulerWorld world;
  const auto first = world.submit(greedy(prompt_of(5, 1), 9)),
             second = world.submit(greedy(prompt_of(5, 2), 90));
  std::shared_ptr<RecordedReply> third;
  first.reply->on_finished = [&] {
    world.scheduler.cancel(second.id);
    third = world.submit(greedy(prompt_of(5, 3), 2)).reply;
  };
  world.finish();
  EXPECT_EQ(second.reply->summary->end, ReplyEnd::kCancelled);
  EXPECT_EQ(third->tokens.size(), 2u);
}

TEST(Scheduler, FailedStepEndsItsRequestsAndTheOthersGoOn) {
  SchedulerWorld world({.pools = {.max_sequences = 2}});
  const Request later_request = greedy(prompt_of(300, 3), 5);
  const auto first = world.submit(greedy(prompt_of(300, 1), 50)),
             second = world.submit(greedy(prompt_of(5, 2), 50)), later = world.submit(later_request);
  int steps = 0;
  world.engine.on_step = [&](const auto&) -> std::string { return ++steps == 3 ? "layer 7 made a NaN" : ""; };
  world.finish();
  EXPECT_EQ(first.reply->summary->end, ReplyEnd::kFailed);
  EXPECT_EQ(first.reply->summary->error, "layer 7 made a NaN");
  EXPECT_EQ(second.reply->summary->end, ReplyEnd::kFailed);
  expect_reply(*later.reply, expected_reply(later_request, 256000));
  world.expect_everything_came_back();
}

TEST(Scheduler, ExceptionOfTheEngineStaysInTheLoop) {
  SchedulerWorld world;
  const auto first = world.submit(greedy(prompt_of(5, 1), 50));
  int steps = 0;
  world.engine.on_step = [&](const auto&) -> std::string {
    if (++steps == 2) throw std::runtime_error("out of luck");
    return "";
  };
  world.finish();
  EXPECT_EQ(first.reply->summary->end, ReplyEnd::kFailed);
  EXPECT_EQ(first.reply->summary->error, "out of luck");
  const auto second = world.submit(greedy(prompt_of(5, 2), 5));
  world.finish();
  EXPECT_EQ(second.reply->tokens.size(), 5u);
  world.expect_everything_came_back();
}

TEST(Scheduler, ALostDeviceFailsEveryRequestAndEndsTheLoop) {
  SchedulerWorld world({.pools = {.max_sequences = 1}});
  const auto running = world.submit(greedy(prompt_of(5, 1), 50)),
             waiting = world.submit(greedy(prompt_of(5, 2), 50));
  world.engine.on_step = [](const auto&) -> std::string { throw LostDevice("an illegal address"); };
  EXPECT_THROW(world.scheduler.run({}), LostDevice);
  for (const auto& request : {running, waiting}) {
    ASSERT_TRUE(request.reply->summary.has_value());
    EXPECT_EQ(request.reply->summary->end, ReplyEnd::kFailed);
    EXPECT_EQ(request.reply->summary->error, "an illegal address");
  }
  EXPECT_FALSE(world.scheduler.submit(greedy(prompt_of(5, 3), 5), std::make_shared<RecordedReply>()));
  world.expect_everything_came_back();
}

TEST(Scheduler, FollowersHitAPromptAsSoonAsItIsIn) {
  SchedulerWorld world({.max_batch_tokens = 256});
  const auto prompt = prompt_of(1030, 1);
  const auto first = world.submit(greedy(prompt, 50));
  for (int i = 0; i < 3; ++i) world.scheduler.turn();
  const auto early = world.submit(greedy(prompt, 50));
  for (int i = 0; i < 3; ++i) world.scheduler.turn();
  const auto late = world.submit(greedy(prompt, 50));
  world.finish();
  EXPECT_EQ(first.reply->summary->cached_tokens, 0);
  EXPECT_EQ(early.reply->summary->cached_tokens, 0);
  EXPECT_EQ(late.reply->summary->cached_tokens, 1024);
  EXPECT_EQ(early.reply->ids(), first.reply->ids());
  EXPECT_EQ(late.reply->ids(), first.reply->ids());
  EXPECT_EQ(world.scheduler.stats().prompt_tokens, 3090);
  EXPECT_EQ(world.scheduler.stats().cached_tokens, 1024);
}

TEST(Scheduler, ChoicesOfOnePromptComputeItOnce) {
  SchedulerWorld world({.max_batch_tokens = 128});
  const auto leader_request = greedy(prompt_of(700, 1), 30);
  const auto leader = world.submit(leader_request);
  Request follower_request = greedy(prompt_of(700, 1), 5);
  follower_request.after_prompt_of = leader.id;
  std::vector<SchedulerWorld::Submitted> followers;
  for (int i = 0; i < 3; ++i) followers.push_back(world.submit(follower_request));
  const auto stranger = world.submit(greedy(prompt_of(10, 2), 2));  // does not wait for them
  Request unknown = greedy(prompt_of(10, 3), 2);
  unknown.after_prompt_of = RequestId{777};
  const auto free = world.submit(unknown);
  std::int64_t fed = 0;
  world.engine.on_step = [&](const std::vector<FakeStepPart>& parts) -> std::string {
    for (const FakeStepPart& part : parts) fed += part.num_tokens;
    return "";
  };
  world.finish();
  for (const auto& follower : followers) {
    EXPECT_EQ(follower.reply->summary->cached_tokens, 512);
    EXPECT_EQ(follower.reply->tokens.size(), 5u);
  }
  EXPECT_EQ(stranger.reply->summary->queue_seconds, 1);
  EXPECT_EQ(free.reply->summary->queue_seconds, 1);
  EXPECT_EQ(fed, 700 + 29 + 3 * (188 + 4) + 2 * 11);
}

TEST(Scheduler, FollowersOfALeaderThatIsGoneStart) {
  SchedulerWorld world({.max_batch_tokens = 16});
  const auto leader = world.submit(greedy(prompt_of(700, 1), 30));
  Request request = greedy(prompt_of(700, 1), 5);
  request.after_prompt_of = leader.id;
  const auto follower = world.submit(request);
  for (int i = 0; i < 3; ++i) world.scheduler.turn();
  EXPECT_EQ(world.scheduler.stats().running, 1);
  world.scheduler.cancel(leader.id);
  world.scheduler.turn();
  EXPECT_EQ(world.scheduler.stats().running, 1);
  world.finish();
  EXPECT_EQ(follower.reply->tokens.size(), 5u);
}

/// Turns until `reply` has its first token.
std::int64_t turns_to_first_token(SchedulerWorld& world, const RecordedReply& reply) {
  std::int64_t turns = 0;
  for (; reply.tokens.empty() && turns < 10000; ++turns) world.scheduler.turn();
  return turns;
}

TEST(Scheduler, ShortPromptsDoNotWaitForLongOnes) {
  SchedulerWorld world({}, {.prefill_share_tokens = 128});
  const auto chatting = world.submit(greedy(prompt_of(5, 1), 1000));
  EXPECT_EQ(turns_to_first_token(world, *chatting.reply), 1);
  std::int64_t most_prompt_tokens = 0, idle_steps = 0;
  world.engine.on_step = [&](const std::vector<FakeStepPart>& parts) -> std::string {
    std::int64_t prompt_tokens = 0;
    bool chats = false;
    for (const FakeStepPart& part : parts) {
      if (part.sequence == SequenceId{0}) chats = true;
      if (part.num_tokens > 1) prompt_tokens += part.num_tokens;
    }
    if (!chats) ++idle_steps;
    most_prompt_tokens = std::max(most_prompt_tokens, prompt_tokens);
    return "";
  };
  const auto book = world.submit(greedy(prompt_of(100000, 2), 2));
  for (int i = 0; i < 10; ++i) world.scheduler.turn();
  const auto question = world.submit(greedy(prompt_of(120, 3), 2));
  EXPECT_LE(turns_to_first_token(world, *question.reply), 2);  // 64 tokens of a step are its own
  EXPECT_EQ(most_prompt_tokens, 128);
  const auto alone = turns_to_first_token(world, *book.reply);
  EXPECT_LE(alone, 100000 / 128);  // nothing is wasted when only one is there
  EXPECT_EQ(idle_steps, 0);        // and whoever decodes is in every step
  world.finish();
}

TEST(Scheduler, PreemptsTheYoungestWhenPagesRunOutAndRepliesStayTheSame) {
  // Three replies of four pages each, and eight pages: someone must yield, and comes back.
  SchedulerWorld world({.pools = {.num_pages = 8}, .max_batch_tokens = 300});
  std::vector<Request> requests;
  std::vector<SchedulerWorld::Submitted> replies;
  std::vector<int> order;
  for (std::uint64_t i = 0; i < 3; ++i) {
    requests.push_back(sampled(prompt_of(200, i), {.seed = i}, 700));
    replies.push_back(world.submit(requests.back()));
    replies.back().reply->on_finished = [&order, i] { order.push_back(static_cast<int>(i)); };
  }
  world.finish();
  for (std::size_t i = 0; i < 3; ++i) expect_reply(*replies[i].reply, expected_reply(requests[i], 2048));
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(replies[0].reply->summary->preemptions, 0);
  EXPECT_EQ(replies[1].reply->summary->preemptions, 0);
  EXPECT_EQ(replies[2].reply->summary->preemptions, 1);
  // It does not knock every turn: pages come back when someone ends.
  EXPECT_EQ(world.engine.num_opened, 4);
  world.expect_everything_came_back();
}

TEST(Scheduler, LowPriorityYieldsItsPagesFirst) {
  SchedulerWorld world({.pools = {.num_pages = 8}});
  std::vector<SchedulerWorld::Submitted> replies;
  for (int i = 0; i < 3; ++i) {
    Request request = greedy(prompt_of(200, static_cast<std::uint64_t>(i)), 700);
    request.priority = i;
    replies.push_back(world.submit(request));
    world.scheduler.turn();
  }
  world.finish();
  EXPECT_GE(replies[0].reply->summary->preemptions, 1);
  EXPECT_EQ(replies[1].reply->summary->preemptions, 0);
  EXPECT_EQ(replies[2].reply->summary->preemptions, 0);
}

TEST(Scheduler, WhatDoesNotFitEvenAloneFailsWithASentence) {
  // 300 tokens in one chunk want two window pages; one at a time will do, but not none.
  SchedulerWorld narrow({.pools = {.num_pages = 8, .num_window_pages = 2}});
  const Request request = greedy(prompt_of(1000, 1), 4);
  const auto squeezed = narrow.submit(request);
  narrow.finish();
  expect_reply(*squeezed.reply, expected_reply(request, 2048));

  SchedulerWorld closed({.pools = {.num_pages = 8, .num_window_pages = 1}});
  const auto hopeless = closed.submit(greedy(prompt_of(600, 1), 4)),
             fine = closed.submit(greedy(prompt_of(100, 2), 4));
  closed.finish();
  EXPECT_EQ(hopeless.reply->summary->end, ReplyEnd::kFailed);
  EXPECT_EQ(
      hopeless.reply->summary->error,
      "the cache has no room for 600 tokens, though the request has it to itself (8 pages of 256 tokens); "
      "shorten the prompt or enlarge the cache");
  EXPECT_EQ(fine.reply->tokens.size(), 4u);
  closed.expect_everything_came_back();
}

TEST(Scheduler, DrainRefusesAndFinishesWhatIsThere) {
  SchedulerWorld world({.pools = {.max_sequences = 1}});
  const auto first = world.submit(greedy({1}, 5)), second = world.submit(greedy({2}, 5));
  world.scheduler.turn();
  world.scheduler.drain();
  EXPECT_FALSE(world.scheduler.submit(greedy({1}, 1), std::make_shared<RecordedReply>()).has_value());
  EXPECT_FALSE(world.scheduler.idle());
  world.finish();
  EXPECT_TRUE(world.scheduler.idle());
  EXPECT_EQ(first.reply->tokens.size(), 5u);
  EXPECT_EQ(second.reply->tokens.size(), 5u);
}

TEST(Scheduler, TurnsWithNothingToDoSaySo) {
  SchedulerWorld world;
  EXPECT_FALSE(world.scheduler.turn());
  world.submit(greedy({1}, 1));
  EXPECT_TRUE(world.scheduler.turn());
  EXPECT_FALSE(world.scheduler.turn());
}

}  // namespace
}  // namespace baleen
