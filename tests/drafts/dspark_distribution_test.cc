// Sampled replies with a DSpark head's drafts are distributed as the target's own logits say, whatever the
// head says; and no depth, threshold or schedule of drafts shows in any reply, greedy or sampled.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "engine/engine.h"
#include "scheduler/scheduler.h"
#include "tests/scheduler/recorded_reply.h"
#include "tests/support/random_checkpoint.h"
#include "tests/support/run_sequence.h"

namespace baleen {
namespace {

constexpr std::int64_t kBlock = 5, kVocab = 16;

/// A vocabulary so small, and temperatures so high, that head and target often agree.
const test::RandomCheckpoint& sixteen_tokens() {
  static const test::RandomCheckpoint made = [] {
    ModelConfig config = with_layers(preset_config("tiny-dspark"), 3);
    config.vocab_size = kVocab;
    config.dspark.noise_token_id = kVocab - 1;
    return test::RandomCheckpoint(config, 7);
  }();
  return made;
}

EngineOptions options(std::int64_t max_draft_tokens, std::int64_t max_sequences) {
  return {.num_threads = 2,
          .max_batch_tokens = 1024,
          .max_logit_rows = 1024,
          .max_sequences = max_sequences,
          .cache_tokens = max_sequences * kPageTokens,
          .drafts = max_draft_tokens > 0,
          .max_draft_tokens = max_draft_tokens};
}

struct Outcome {
  std::vector<std::vector<TokenId>> replies;
  SchedulerStats stats;
};

Outcome run(ModelEngine& engine, const SchedulerOptions& scheduling, const std::vector<Request>& requests) {
  Scheduler scheduler(engine, fake_tokenizer(), scheduling, [] { return 0.0; });
  std::vector<std::shared_ptr<RecordedReply>> recorded;
  for (const Request& request : requests) {
    recorded.push_back(std::make_shared<RecordedReply>());
    EXPECT_TRUE(scheduler.submit(request, recorded.back()).has_value());
  }
  while (scheduler.turn()) {
  }
  Outcome outcome{.replies = {}, .stats = scheduler.stats()};
  for (const auto& reply : recorded) {
    EXPECT_EQ(reply->summary->end, ReplyEnd::kLength) << reply->summary->error;
    outcome.replies.push_back(reply->ids());
  }
  return outcome;
}

constexpr double kTemperature = 2;
constexpr int kTopK = 3;
const std::vector<TokenId> kPrompt{3, 14, 1, 5, 9, 2, 6};

/// The likeliest kTopK tokens behind prompt and `reply`, with their probabilities.
std::vector<std::pair<TokenId, double>> next_tokens(StepEngine& engine, std::span<const TokenId> reply) {
  std::vector<TokenId> tokens = kPrompt;
  tokens.insert(tokens.end(), reply.begin(), reply.end());
  const SequenceId sequence = *engine.open({});
  const StepOutput output = test::step(engine, sequence, tokens, WantedLogits::kLast);
  std::vector<std::pair<double, TokenId>> order;
  for (TokenId id = 0; id < kVocab; ++id)
    order.emplace_back(output.logits.row(0)[static_cast<std::size_t>(id)] / kTemperature, id);
  engine.close(sequence, false);
  std::ranges::sort(order, std::greater<>());
  order.resize(kTopK);
  double total = 0;
  for (const auto& [logit, id] : order) total += std::exp(logit - order[0].first);
  std::vector<std::pair<TokenId, double>> tokens_of;
  for (const auto& [logit, id] : order) tokens_of.emplace_back(id, std::exp(logit - order[0].first) / total);
  return tokens_of;
}

/// All 27 replies of three tokens, of which the latter two are drafted.
TEST(DsparkDistribution, IsThatOfTheTarget) {
  constexpr int kNumSeeds = 4000;
  std::map<std::vector<TokenId>, double> probabilities;
  Engine plain(sixteen_tokens().path(), options(0, 1));
  for (const auto& [first, p] : next_tokens(plain, {})) {
    for (const auto& [second, q] : next_tokens(plain, std::vector{first})) {
      for (const auto& [third, r] : next_tokens(plain, std::vector{first, second}))
        probabilities[{first, second, third}] = p * q * r;
    }
  }
  std::vector<Request> requests(kNumSeeds);
  for (int seed = 0; seed < kNumSeeds; ++seed) {
    Request& request = requests[static_cast<std::size_t>(seed)];
    request.prompt = kPrompt;
    request.sampling = {.temperature = kTemperature, .top_k = kTopK, .seed = seed};
    request.max_tokens = 4;  // room for two drafts behind the first token
  }
  Engine engine(sixteen_tokens().path(), options(kBlock, 64));
  const Outcome outcome =
      run(engine, {.max_queue = kNumSeeds, .speculate = kBlock, .draft_schedule = false}, requests);
  std::map<std::vector<TokenId>, int> counts;
  for (std::vector<TokenId> reply : outcome.replies) {
    reply.resize(3);
    ++counts[reply];
  }
  double chi_square = 0;
  for (const auto& [reply, probability] : probabilities) {
    const double expected = probability * kNumSeeds;
    EXPECT_GT(expected, 5);
    chi_square += (counts[reply] - expected) * (counts[reply] - expected) / expected;
    counts.erase(reply);
  }
  EXPECT_TRUE(counts.empty()) << "a reply that cannot be";
  EXPECT_LT(chi_square, 78);  // 26 degrees of freedom: chance alone exceeds that once in two million
  testing::Test::RecordProperty("chi_square", std::to_string(chi_square));
  testing::Test::RecordProperty("drafted", std::to_string(outcome.stats.drafted_tokens));
  testing::Test::RecordProperty("accepted", std::to_string(outcome.stats.accepted_tokens));
  EXPECT_LT(kNumSeeds / 20, outcome.stats.accepted_tokens);
  EXPECT_LT(outcome.stats.accepted_tokens, outcome.stats.drafted_tokens);
}

/// More requests than run at a time, greedy and sampled; windows wrap in the longest.
std::vector<Request> mixed_requests() {
  std::vector<Request> requests;
  for (const std::int64_t length : {1, 40, 127, 200, 3, 90}) {
    Request& request = requests.emplace_back();
    request.prompt = test::random_tokens(length, kVocab, static_cast<std::uint32_t>(length));
    request.sampling.temperature = requests.size() % 3 == 0 ? 0 : 0.7 * static_cast<double>(requests.size());
    request.sampling.seed = static_cast<std::int64_t>(requests.size());
    request.max_tokens = 30;
  }
  return requests;
}

struct Limits {
  double threshold;
  bool schedule;
};

TEST(DsparkReplies, NoDepthThresholdOrScheduleShows) {
  const std::vector<Request> requests = mixed_requests();
  Engine plain(sixteen_tokens().path(), options(0, 4));
  const Outcome want = run(plain, {}, requests);
  for (const bool chooses : {false, true}) {
    EngineOptions with = options(kBlock, 4);
    with.choose_on_device = chooses;
    Engine engine(sixteen_tokens().path(), with);
    for (std::int64_t depth = 0; depth <= kBlock; ++depth) {
      std::int64_t before = 0;
      for (const Limits limits : {Limits{1, false}, Limits{0.5, false}, Limits{0, false}, Limits{0, true}}) {
        SCOPED_TRACE(fmt::format("{} drafts, threshold {}, {}, chosen by the {}", depth, limits.threshold,
                                 limits.schedule ? "as many as pay" : "always as many",
                                 chooses ? "engine" : "host"));
        const SchedulerOptions scheduling{.speculate = depth,
                                          .draft_schedule = limits.schedule,
                                          .draft_threshold = depth > 0 ? limits.threshold : 0};
        const Outcome got = run(engine, scheduling, requests);
        EXPECT_EQ(got.replies, want.replies);
        if (depth == 0 || limits.schedule) continue;
        const std::int64_t drafted = got.stats.drafted_tokens;
        if (limits.threshold == 1) {
          EXPECT_EQ(drafted, 0);  // no chance is as high
        } else {
          EXPECT_LT(before, drafted);
          EXPECT_LT(got.stats.accepted_tokens, drafted);
        }
        if (limits.threshold == 0) {
          EXPECT_LT(0, got.stats.accepted_tokens);
        }
        before = drafted;
      }
    }
  }
}

}  // namespace
}  // namespace baleen
