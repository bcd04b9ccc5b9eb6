// A hit changes nothing but time: logits behind a found prefix are those of a cold run, to the bit.
#include <gtest/gtest.h>

#include <random>

#include "tests/support/compare.h"
#include "tests/support/random_checkpoint.h"
#include "tests/support/run_sequence.h"
#include "tests/support/test_device.h"

namespace baleen {
namespace {

constexpr std::int64_t kVocab = 512;

EngineOptions options(Precision precision, std::int64_t num_pages, std::int64_t cached_window_pages) {
  return {.device = test::device(),
          .precision = precision,
          .num_threads = 2,
          .max_batch_tokens = 600,
          .max_logit_rows = 600,
          .max_sequences = 3,
          .cache_tokens = (num_pages - 2) * kPageTokens,
          .prefix_cache = true,
          .cached_window_pages = cached_window_pages};
}

EngineOptions cold_options(Precision precision) {
  return {.device = test::device(),
          .precision = precision,
          .num_threads = 2,
          .max_batch_tokens = 2000,
          .max_logit_rows = 2000,
          .cache_tokens = 2048};
}

std::vector<TokenId> joined(std::span<const TokenId> a, std::span<const TokenId> b) {
  std::vector<TokenId> tokens(a.begin(), a.end());
  tokens.insert(tokens.end(), b.begin(), b.end());
  return tokens;
}

/// What a sequence of an engine says, from where it was found on, against a cold run of all its tokens.
void expect_cold_logits(Engine& cold, std::span<const TokenId> tokens, std::int64_t found,
                        const std::vector<float>& got) {
  const test::SequenceLogits want = test::run_sequence(cold, tokens, tokens.size());
  ASSERT_SAME_BITS(got, std::span(want.main).subspan(static_cast<std::size_t>(found * kVocab)))
      << tokens.size() << " tokens, " << found << " found";
}

class PrefixCache : public testing::TestWithParam<Precision> {};

TEST_P(PrefixCache, ASecondRequestComputesOnlyTheRest) {
  // Before the first page's end, a token behind it, and at the end of what is cached.
  const std::pair<const char*, std::vector<std::size_t>> kCases[] = {{"tiny-flash", {257, 513, 530}},
                                                                     {"tiny-real-heads", {513}}};
  for (const auto& [preset, beginnings] : kCases) {
    const test::RandomCheckpoint checkpoint(preset, 2);
    Engine engine(checkpoint.path(), options(GetParam(), 12, 4)),
        cold(checkpoint.path(), cold_options(GetParam()));
    const std::vector<TokenId> tokens = test::random_tokens(530, kVocab, 1);
    const SequenceId first = *engine.open(tokens);
    static_cast<void>(test::feed(engine, first, tokens, 300));
    engine.close(first, true);
    for (const std::size_t begin : beginnings) {
      const std::vector<TokenId> prompt =
          joined(std::span(tokens).first(begin), test::random_tokens(20, kVocab, 2));
      const SequenceId second = *engine.open(prompt);
      const std::int64_t found = engine.length(second);
      EXPECT_EQ(found, begin > 512 ? 512 : 0);  // the first page's window rows were left behind
      const std::vector<float> got =
          test::feed(engine, second, std::span(prompt).subspan(static_cast<std::size_t>(found)), 7).main;
      expect_cold_logits(cold, prompt, found, got);
      engine.close(second, false);
    }
  }
}

/// Random prompts over shared beginnings, three at a time, in random chunks, shared on the way or not, kept
/// or not, in pools that are too small for all.
class RandomTraffic {
 public:
  RandomTraffic(Engine& engine, Engine& cold, std::uint32_t seed)
      : engine_(engine), cold_(cold), random_(seed) {}

  void run(int num_prompts) {
    while (num_prompts > 0 || !running_.empty()) {
      if (num_prompts > 0 && running_.size() < 3) {
        --num_prompts;
        start();
      }
      step();
      if (testing::Test::HasFailure()) break;
    }
    for (const Running& one : running_) engine_.close(one.id, false);
  }
  std::int64_t found_tokens = 0;

 private:
  struct Running {
    SequenceId id;
    std::vector<TokenId> tokens;
    std::int64_t found = 0;
    std::vector<float> logits;
    bool refused = false;
  };

  std::size_t one_of(std::initializer_list<std::size_t> choices) {
    return choices.begin()[random_() % choices.size()];
  }
  void start() {
    std::vector<TokenId> prompt;
    if (!seen_.empty() && random_() % 5 > 0) {
      prompt = seen_[random_() % seen_.size()];
      prompt.resize(std::min(prompt.size(), one_of({250, 256, 257, 512, 600})));
    }
    const auto more = static_cast<std::int64_t>(one_of({1, 3, 40, 256, 270}));
    prompt = joined(prompt, test::random_tokens(more, kVocab, static_cast<std::uint32_t>(random_())));
    seen_.push_back(prompt);
    const SequenceId id = *engine_.open(prompt);
    found_tokens += engine_.length(id);
    if (random_() % 2 == 0) engine_.keep_tail(id, static_cast<std::int64_t>(random_() % prompt.size()));
    running_.push_back({id, prompt, engine_.length(id)});
  }
  void step() {
    std::vector<StepInput> inputs;
    std::vector<Running*> stepped;
    for (Running& one : running_) {
      const auto length = static_cast<std::size_t>(engine_.length(one.id));
      const auto count = std::min(one.tokens.size() - length, one_of({1, 5, 100, 190}));
      one.refused = !engine_.reserve(one.id, static_cast<std::int64_t>(count));
      if (one.refused) continue;
      inputs.push_back({one.id, std::span(one.tokens).subspan(length, count), WantedLogits::kAll});
      stepped.push_back(&one);
    }
    if (!inputs.empty()) {
      const Result<StepOutput> output = engine_.step(inputs);
      ASSERT_TRUE(output) << output.error();
      const float* row = output.value().logits.data();
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const auto count = static_cast<std::ptrdiff_t>(inputs[i].tokens.size()) * kVocab;
        stepped[i]->logits.insert(stepped[i]->logits.end(), row, row + count);
        row += count;
        if (random_() % 2 == 0) engine_.share(stepped[i]->id);
      }
    }
    bool preempted = false;
    std::erase_if(running_, [&](const Running& one) {
      const std::int64_t length = engine_.length(one.id);
      const bool over = length == static_cast<std::int64_t>(one.tokens.size());
      if (over) expect_cold_logits(cold_, one.tokens, one.found, one.logits);
      const bool preempt = one.refused && inputs.empty() && !preempted;  // or no request would ever go on
      preempted |= preempt;
      if (over || preempt) engine_.close(one.id, random_() % 4 > 0);
      return over || preempt;
    });
    const CacheUse use = engine_.cache_use();
    ASSERT_EQ(use.pages.free + use.pages.cached + use.pages.in_use, use.pages.total);
  }

  Engine& engine_;
  Engine& cold_;
  std::mt19937 random_;
  std::vector<std::vector<TokenId>> seen_;
  std::vector<Running> running_;
};

TEST_P(PrefixCache, HitsDoNotShowUnderEvictionPressure) {
  static const test::RandomCheckpoint checkpoint(with_layers(preset_config("tiny-flash"), 3), 5);
  Engine cold(checkpoint.path(), cold_options(GetParam()));
  std::int64_t found_tokens = 0;
  for (const auto& [num_pages, window_pages] : {std::pair{6, 1}, {12, 2}, {30, 20}}) {
    Engine engine(checkpoint.path(), options(GetParam(), num_pages, window_pages));
    RandomTraffic traffic(engine, cold, static_cast<std::uint32_t>(num_pages));
    traffic.run(12);
    found_tokens += traffic.found_tokens;
    const CacheUse use = engine.cache_use();
    EXPECT_EQ(use.pages.in_use + use.window_pages.in_use + use.state_slots.in_use, 0);
  }
  EXPECT_GT(found_tokens, 2000);
}

TEST_P(PrefixCache, DraftsAndStepsTakenBackDoNotShowBehindAHit) {
  const test::RandomCheckpoint checkpoint("tiny-flash", 3);
  EngineOptions with = options(GetParam(), 12, 4);
  with.max_draft_tokens = 2;
  Engine engine(checkpoint.path(), with), cold(checkpoint.path(), cold_options(GetParam()));
  const std::vector<TokenId> tokens = test::random_tokens(560, kVocab, 1), garbage{3, 4};
  for (const std::size_t kept : {512, 530}) {  // at 512 the last MTP row of the page is still due
    const std::vector<TokenId> prompt =
        joined(std::span(tokens).first(513), test::random_tokens(30, kVocab, 7));
    const SequenceId first = *engine.open({});
    static_cast<void>(test::feed(engine, first, std::span(tokens).first(kept), 512));
    engine.close(first, true);
    const SequenceId second = *engine.open(prompt);
    ASSERT_EQ(engine.length(second), 512);
    std::vector<float> got;
    for (std::size_t fed = 512; fed < prompt.size(); ++fed) {
      const std::vector<TokenId> step = joined(std::span(prompt).subspan(fed, 1), garbage);
      const StepOutput output = test::step(engine, second, step);
      got.insert(got.end(), output.logits.data(), output.logits.data() + kVocab);
      engine.truncate(second, static_cast<std::int64_t>(fed + 1));
      if (fed == 530) engine.share(second);
      ASSERT_TRUE(engine.reserve(second, 2));
      for (const std::int64_t depth : {0, 1}) {
        const DraftInput input{second, garbage[static_cast<std::size_t>(depth)]};
        const auto drafted = engine.draft({&input, 1}, depth);
        ASSERT_TRUE(drafted) << drafted.error();
      }
    }
    expect_cold_logits(cold, prompt, 512, got);
    engine.close(second, false);
  }
}

/// Requests behind one beginning, whose end is said or not: the second or the third finds it, drafts beside
/// or not.
TEST_P(PrefixCache, HitsAtKeptTailsAreCold) {
  static const test::RandomCheckpoint checkpoint(with_layers(preset_config("tiny-flash"), 3), 5);
  Engine cold(checkpoint.path(), cold_options(GetParam()));
  const std::vector<TokenId> system = test::random_tokens(700, kVocab, 1);
  for (const std::int64_t drafts : {0, 2}) {
    for (const bool said : {false, true}) {
      EngineOptions with = options(GetParam(), 20, 12);
      with.max_draft_tokens = drafts;
      Engine engine(checkpoint.path(), with);
      for (std::uint32_t i = 0; i < 4; ++i) {
        SCOPED_TRACE(fmt::format("{} drafts, {}, request {}", drafts, said ? "said" : "not said", i));
        const std::vector<TokenId> prompt = joined(system, test::random_tokens(400, kVocab, 10 + i));
        const SequenceId id = *engine.open(prompt);
        const std::int64_t found = engine.length(id);
        EXPECT_EQ(found, i > (said ? 0U : 1U) ? 512 : 0);
        EXPECT_EQ(engine.lookup(id).found_tokens, found);
        EXPECT_EQ(engine.lookup(id).first_difference, i == 0 ? 0 : 700);
        if (said) engine.keep_tail(id, 700);
        const std::vector<float> got =
            test::feed(engine, id, std::span(prompt).subspan(static_cast<std::size_t>(found)), 300).main;
        expect_cold_logits(cold, prompt, found, got);
        engine.share(id);
        engine.close(id, true);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryPrecision, PrefixCache,
                         testing::Values(Precision::kExact, Precision::kBf16, Precision::kReleased),
                         [](const auto& tested) { return std::string(precision_name(tested.param)); });

TEST(PrefixCacheOff, NothingIsFoundAndNothingKept) {
  const test::RandomCheckpoint checkpoint(with_layers(preset_config("tiny-flash"), 3), 5);
  Engine engine(checkpoint.path(), {.device = test::device(), .num_threads = 1, .cache_tokens = 1024});
  const std::vector<TokenId> tokens = test::random_tokens(512, kVocab, 1);
  const SequenceId first = *engine.open(tokens);
  static_cast<void>(test::step(engine, first, tokens, WantedLogits::kNone));
  engine.close(first, true);
  EXPECT_EQ(engine.length(*engine.open(tokens)), 0);
  EXPECT_EQ(engine.cache_use().pages.cached, 0);
  EXPECT_TRUE(engine.tree(10).empty());
}

TEST(ExpertLoad, CountsEveryTokenOfEveryBlock) {
  const test::RandomCheckpoint checkpoint("tiny-flash", 3);
  Engine engine(checkpoint.path(),
                {.device = test::device(), .num_threads = 1, .cache_tokens = 1024, .drafts = true});
  const SequenceId sequence = *engine.open({});
  static_cast<void>(test::step(engine, sequence, test::random_tokens(100, kVocab, 1), WantedLogits::kNone));
  const auto load = engine.expert_load();
  ASSERT_EQ(static_cast<std::int64_t>(load.size()), engine.config().num_blocks());
  for (std::int64_t block = 0; block < engine.config().num_blocks(); ++block) {
    std::int64_t sum = 0;
    for (const std::int64_t tokens : load[static_cast<std::size_t>(block)]) sum += tokens;
    const std::int64_t rows = engine.config().is_draft_block(block) ? 99 : 100;
    EXPECT_EQ(sum, rows * engine.config().num_experts_per_tok) << block;
  }
}

}  // namespace
}  // namespace baleen
