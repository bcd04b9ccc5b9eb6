// Groups that compute prompts and groups that decode: the bits of one rank, whatever is sent between them.
#include <gtest/gtest.h>

#include <atomic>
#include <random>

#include "engine/engine_limits.h"
#include "rank_engine/rank_engine.h"
#include "rank_engine/thread_team.h"
#include "tests/support/compare.h"
#include "tests/support/converse.h"
#include "tests/support/random_checkpoint.h"
#include "tests/support/run_sequence.h"
#include "tests/support/test_device.h"

namespace baleen {
namespace {

constexpr std::int64_t kVocabulary = 512;

const test::RandomCheckpoint& tiny() {
  static const test::RandomCheckpoint checkpoint("tiny-flash");
  return checkpoint;
}

EngineOptions options(const ParallelPlan& plan, std::int64_t max_draft_tokens = 0,
                      bool prefix_cache = false) {
  return test::on_device({.num_threads = 1,
                          .max_batch_tokens = 300,
                          .max_logit_rows = 300,
                          .max_sequences = 4,
                          .cache_tokens = 8192,
                          .max_draft_tokens = max_draft_tokens,
                          .prefix_cache = prefix_cache,
                          .parallel = plan},
                         preset_config("tiny-flash"));
}

void expect_nothing_held(const StepEngine& engine) {
  const CacheUse use = engine.cache_use();
  EXPECT_EQ(use.pages.in_use, 0);
  EXPECT_EQ(use.window_pages.in_use, 0);
  EXPECT_EQ(use.state_slots.in_use, 0);
}

void expect_one_ranks_bits(const ParallelPlan& plan, std::span<const std::size_t> lengths, std::uint32_t seed,
                           std::int64_t num_drafts, bool prefix_cache = false) {
  const EngineOptions wanted = options(plan, num_drafts, prefix_cache);
  const auto one = open_engine(tiny().path(), options({}, num_drafts, prefix_cache));
  const auto many = open_engine(tiny().path(), wanted);
  SCOPED_TRACE(to_text(many->options().parallel) + ", seed " + std::to_string(seed));
  EXPECT_SAME_BITS(test::converse(*many, lengths, seed, num_drafts),
                   test::converse(*one, lengths, seed, num_drafts));
  const TransferStats stats = *many->transfer_stats();
  EXPECT_EQ(stats.num_sequences, std::ssize(lengths));
  EXPECT_GT(stats.num_bytes, 0);
  EXPECT_EQ(stats.num_refused, 0);
  expect_nothing_held(*many);
}

TEST(PrefillGroups, LogitsOfOneRank) {
  const std::uint32_t seed = std::random_device()();
  std::mt19937 random(seed);
  for (const ParallelPlan& plan :
       {ParallelPlan{.dp = 2, .prefill_groups = 1}, ParallelPlan{.dp = 2, .pp = 2, .prefill_groups = 1},
        ParallelPlan{.dp = 4, .prefill_groups = 2}}) {
    const std::vector<std::size_t> lengths{1 + random() % 700, 1 + random() % 300, 1 + random() % 600};
    expect_one_ranks_bits(plan, lengths, seed, 0);
    expect_one_ranks_bits(plan, lengths, seed, 2);
  }
}

TEST(PrefillGroups, PromptsAtTheEdgesOfEntriesWindowsAndPages) {
  for (const std::size_t edge : {4, 128, 256, 512}) {
    const std::vector<std::size_t> lengths{edge - 1, edge, edge + 1};
    expect_one_ranks_bits({.dp = 2, .prefill_groups = 1}, lengths, static_cast<std::uint32_t>(edge), 2);
  }
  const std::vector<std::size_t> one{1};
  expect_one_ranks_bits({.dp = 2, .prefill_groups = 1}, one, 1, 2);
}

TEST(PrefillGroups, SequenceParallelRanks) {
  const std::vector<std::size_t> lengths{270, 33};
  expect_one_ranks_bits({.tp = 2, .dp = 2, .o_proj_tp = 1, .prefill_groups = 1, .sequence_parallel = true},
                        lengths, 5, 1);
  expect_one_ranks_bits({.cp = 2, .dp = 2, .prefill_groups = 1}, lengths, 5, 1);
}

/// Logits of the reply, which follows the prompt in steps of some tokens.
std::vector<float> reply(StepEngine& engine, std::span<const TokenId> tokens, std::size_t num_prompt,
                         std::int64_t* found = nullptr) {
  std::vector<float> seen;
  const SequenceId id = *engine.open(tokens.first(num_prompt));
  if (found != nullptr) *found = engine.length(id);
  for (auto next = static_cast<std::size_t>(engine.length(id)); next < tokens.size();) {
    const std::size_t end = next < num_prompt ? num_prompt : tokens.size();
    const std::size_t count = std::min<std::size_t>(100, end - next);
    const bool wants = next + count >= num_prompt;
    test::note(seen, test::step(engine, id, tokens.subspan(next, count),
                                wants ? WantedLogits::kLast : WantedLogits::kNone)
                         .logits);
    next += count;
    if (next == num_prompt) engine.share(id);
  }
  engine.close(id, true);
  return seen;
}

TEST(PrefillGroups, AConversationComesBackThroughTheCacheOfItsDecodeGroup) {
  for (const ParallelPlan& plan :
       {ParallelPlan{.dp = 2, .prefill_groups = 1}, ParallelPlan{.dp = 4, .prefill_groups = 2}}) {
    const std::uint32_t seed = std::random_device()();
    SCOPED_TRACE(seed);
    const auto one = open_engine(tiny().path(), options({}));
    const auto many = open_engine(tiny().path(), options(plan, 0, true));
    const std::vector<TokenId> tokens = test::random_tokens(1300, kVocabulary, seed);
    const std::span<const TokenId> all(tokens);
    const auto expect_same = [&](std::size_t num_tokens, std::size_t num_prompt, std::int64_t want_found) {
      std::int64_t found = 0;
      const std::vector<float> got = reply(*many, all.first(num_tokens), num_prompt, &found);
      EXPECT_SAME_BITS(got, reply(*one, all.first(num_tokens), num_prompt));
      EXPECT_EQ(found, want_found);
    };
    expect_same(800, 300, 0);
    EXPECT_EQ(many->transfer_stats()->num_prefixes, 0);
    expect_same(1100, 850, 768);  // the reply's pages were the decode group's alone
    EXPECT_EQ(many->transfer_stats()->num_prefixes, 1);
    expect_same(1100, 769, 768);  // the whole prompt but a token
    expect_same(1200, 768, 256);  // a fork: found to where a prefix was shared
    expect_same(1300, 1150, 1024);
    EXPECT_EQ(many->transfer_stats()->num_sequences, 5);
    EXPECT_EQ(many->transfer_stats()->num_refused, 0);
    expect_nothing_held(*many);
  }
}

TEST(PrefillGroups, AStepBehindThePromptIsTheDecodeGroups) {
  const auto opened = open_engine(tiny().path(), options({.dp = 4, .prefill_groups = 1}));
  auto& engine = dynamic_cast<RankEngine&>(*opened);
  const std::vector<TokenId> tokens = test::random_tokens(300, kVocabulary, 3);
  // With a prompt that is known, and with one that is not.
  for (const std::size_t num_known : {std::size_t{280}, std::size_t{0}}) {
    const SequenceId id = *engine.open(std::span(tokens).first(num_known));
    static_cast<void>(test::step(engine, id, std::span(tokens).first(260), WantedLogits::kNone));
    static_cast<void>(test::step(engine, id, std::span(tokens).subspan(260, 20), WantedLogits::kLast));
    EXPECT_EQ(engine.group_of(id), 0);
    static_cast<void>(test::step(engine, id, std::span(tokens).subspan(280, 1), WantedLogits::kLast));
    EXPECT_GT(engine.group_of(id), 0);
  }
  EXPECT_EQ(engine.transfer_stats()->num_sequences, 2);
}

TEST(PrefillGroups, WhatEndsOnItsWayLeavesNothing) {
  for (const bool keep : {false, true}) {
    const auto engine = open_engine(tiny().path(), options({.dp = 2, .prefill_groups = 1}, 2, true));
    const std::vector<TokenId> tokens = test::random_tokens(700, kVocabulary, 4);
    // Before anything, between two parts, behind the last chunk.
    for (const std::size_t num_fed : {0, 520, 540, 700}) {
      const SequenceId id = *engine->open(tokens);
      for (auto next = static_cast<std::size_t>(engine->length(id)); next < num_fed;) {
        const std::size_t count = std::min<std::size_t>(260, num_fed - next);
        static_cast<void>(test::step(*engine, id, std::span(tokens).subspan(next, count),
                                     next + count == 700 ? WantedLogits::kLast : WantedLogits::kNone));
        next += count;
      }
      engine->close(id, keep);
      expect_nothing_held(*engine);
    }
    // Nothing half done is found later.
    const auto one = open_engine(tiny().path(), options({}, 2));
    EXPECT_SAME_BITS(reply(*engine, tokens, 600), reply(*one, tokens, 600));
  }
}

TEST(PrefillGroups, AFullDecodeGroupTakesASequenceOverLater) {
  EngineOptions small = options({.dp = 2, .prefill_groups = 1});
  small.cache_tokens = 1280;  // 8 pages of 4 sequences: room for two of these in a group
  const auto opened = open_engine(tiny().path(), small);
  auto& engine = dynamic_cast<RankEngine&>(*opened);
  const auto one = open_engine(tiny().path(), options({}));
  const std::vector<TokenId> tokens = test::random_tokens(720, kVocabulary, 5);
  const auto prompt = std::span(tokens).first(700);
  const auto feed_prompt = [&] {
    const SequenceId id = *engine.open(prompt);
    for (std::size_t next = 0; next < prompt.size(); next += 100)
      static_cast<void>(test::step(engine, id, prompt.subspan(next, 100),
                                   next == 600 ? WantedLogits::kLast : WantedLogits::kNone));
    return id;
  };
  const SequenceId whole = *one->open({});
  for (std::size_t next = 0; next < 700; next += 100)
    static_cast<void>(test::step(*one, whole, prompt.subspan(next, 100), WantedLogits::kNone));
  std::vector<std::vector<float>> want;
  for (std::size_t i = 700; i < 720; ++i) {
    want.emplace_back();
    test::note(want.back(), test::step(*one, whole, std::span(tokens).subspan(i, 1)).logits);
  }
  std::size_t steps_of[3] = {};
  std::vector<SequenceId> ids;
  const auto decode = [&](std::size_t which) {
    std::vector<float> got;
    const std::size_t i = steps_of[which]++;
    EXPECT_TRUE(engine.reserve(ids[which], 1));
    test::note(got, test::step(engine, ids[which], std::span(tokens).subspan(700 + i, 1)).logits);
    EXPECT_SAME_BITS(got, want[i]);
  };
  for (std::size_t i = 0; i < 3; ++i) {
    ids.push_back(feed_prompt());
    decode(i);
    decode(i);
  }
  EXPECT_EQ(engine.group_of(ids[0]), 1);
  EXPECT_EQ(engine.group_of(ids[1]), 1);
  EXPECT_EQ(engine.group_of(ids[2]), 0) << "there is no room for it";
  engine.close(ids[0], false);
  decode(2);
  EXPECT_EQ(engine.group_of(ids[2]), 1);
  decode(2);
  decode(1);
  engine.close(ids[1], false);
  engine.close(ids[2], false);
  expect_nothing_held(engine);
}

TEST(PrefillGroups, TokensThatAreTakenBackAfterTheirPageWasSent) {
  const auto opened = open_engine(tiny().path(), options({.dp = 2, .prefill_groups = 1}, 2));
  auto& engine = dynamic_cast<RankEngine&>(*opened);
  const auto one = open_engine(tiny().path(), options({}, 2));
  std::vector<TokenId> tokens = test::random_tokens(300, kVocabulary, 6);
  const auto run = [&](StepEngine& each) {
    const SequenceId id = *each.open(tokens);
    static_cast<void>(test::step(each, id, std::span(tokens).first(254), WantedLogits::kNone));
    static_cast<void>(test::step(each, id, std::vector<TokenId>{1, 2}, WantedLogits::kNone));
    const std::vector<TokenId> wrong{kVocabulary};
    const StepInput input{id, wrong};
    EXPECT_FALSE(each.step({&input, 1}));  // by now the page is on its way
    each.truncate(id, 254);
    std::vector<float> seen;
    for (std::size_t next = 254; next < 300; next += 23)
      test::note(seen, test::step(each, id, std::span(tokens).subspan(next, 23)).logits);
    test::note(seen, test::step(each, id, std::vector<TokenId>{7}).logits);
    each.close(id, false);
    return seen;
  };
  EXPECT_SAME_BITS(run(engine), run(*one));
  EXPECT_EQ(engine.transfer_stats()->num_sequences, 0) << "it stays where its prompt was computed";
  expect_nothing_held(engine);
}

/// Lets messages between the two groups be altered while it is armed, which is outside of steps.
class AlteringCommunicator final : public Communicator {
 public:
  using Alter = std::function<void(std::span<std::byte>)>;
  AlteringCommunicator(LocalExchange& exchange, const Alter& alter, const std::atomic<bool>& armed)
      : inner_(exchange), alter_(alter), armed_(armed) {}
  void exchange(const RankGroup& group, std::span<const std::span<const std::byte>> send,
                std::span<const std::span<std::byte>> receive) override {
    const auto other = static_cast<std::size_t>(1 - group.place);
    if (!armed_ || group.size() != 2 || send[other].empty()) return inner_.exchange(group, send, receive);
    std::vector<std::byte> altered(send[other].begin(), send[other].end());
    alter_(altered);
    std::vector<std::span<const std::byte>> sent(send.begin(), send.end());
    sent[other] = altered;
    inner_.exchange(group, sent, receive);
  }

 private:
  LocalCommunicator inner_;
  const Alter& alter_;
  const std::atomic<bool>& armed_;
};

/// An engine of two groups whose messages are altered while it is armed.
class AlteredEngine {
 public:
  AlteredEngine(AlteringCommunicator::Alter alter, std::int64_t max_draft_tokens, bool prefix_cache)
      : alter_(std::move(alter)) {
    auto weights = std::make_shared<const ModelWeights>(tiny().path());
    EngineOptions wanted = options({.dp = 2, .prefill_groups = 1}, max_draft_tokens, prefix_cache);
    wanted.report_refusal = [this](const std::string& sentence) { sentences_.push_back(sentence); };
    wanted = resolved(wanted, weights->config());
    const auto connect = [this](std::int64_t /*rank*/, LocalExchange& exchange) {
      return std::make_unique<AlteringCommunicator>(exchange, alter_, armed_);
    };
    engine_ = std::make_unique<RankEngine>(std::make_unique<ThreadTeam>(weights, wanted, connect), wanted);
  }
  RankEngine& operator*() { return *engine_; }
  RankEngine* operator->() { return engine_.get(); }
  void arm(bool armed) { armed_ = armed; }
  /// Of the one refusal that there was.
  [[nodiscard]] std::string sentence() const {
    EXPECT_EQ(sentences_.size(), 1u);
    EXPECT_EQ(engine_->transfer_stats()->num_refused, 1);
    return sentences_.empty() ? "" : sentences_.front();
  }

 private:
  const AlteringCommunicator::Alter alter_;
  std::atomic<bool> armed_ = false;
  std::vector<std::string> sentences_;
  std::unique_ptr<RankEngine> engine_;
};

/// The sentence about a sequence whose transfer is altered, which is decoded to the bit all the same.
std::string refusal(const AlteringCommunicator::Alter& alter) {
  AlteredEngine altered(alter, 1, false);
  RankEngine& engine = *altered;
  const auto one = open_engine(tiny().path(), options({}, 1));
  const std::vector<TokenId> tokens = test::random_tokens(290, kVocabulary, 7);
  const auto run = [&](StepEngine& each) {
    std::vector<float> seen;
    const SequenceId id = *each.open(std::span(tokens).first(280));
    test::note(seen, test::step(each, id, std::span(tokens).first(280), WantedLogits::kLast).logits);
    altered.arm(true);
    EXPECT_TRUE(each.reserve(id, 1));
    altered.arm(false);
    test::note(seen, test::step(each, id, std::span(tokens).subspan(280, 10)).logits);
    each.close(id, false);
    return seen;
  };
  EXPECT_SAME_BITS(run(engine), run(*one));
  expect_nothing_held(engine);
  EXPECT_EQ(engine.transfer_stats()->num_sequences, 0);
  // The next one, whose messages are not altered, goes over.
  const SequenceId next = *engine.open(std::span(tokens).first(20));
  static_cast<void>(test::step(engine, next, std::span(tokens).first(20), WantedLogits::kLast));
  EXPECT_TRUE(engine.reserve(next, 1));
  EXPECT_EQ(engine.group_of(next), 1);
  return altered.sentence();
}

AlteringCommunicator::Alter rename(const std::string& from, const std::string& to) {
  return [from, to](std::span<std::byte> message) {
    const auto name = std::as_bytes(std::span(from));
    const auto found = std::ranges::search(message, name);
    if (!found.empty()) std::ranges::copy(std::as_bytes(std::span(to)), found.begin());
  };
}

TEST(PrefillGroups, APoolThatIsMissingIsRefusedByItsName) {
  for (const std::string pool : {"compressed entries", "indexer keys", "window rows",
                                 "compressor overlap rows", "indexer overlap rows", "main compressor rings",
                                 "indexer compressor rings", "draft streams", "tokens"}) {
    const std::string sentence = refusal(rename(pool, std::string(pool.size(), '?')));
    EXPECT_NE(sentence.find("rank 1: pool " + pool + ": expected "), std::string::npos) << sentence;
    EXPECT_NE(sentence.find("found none of it"), std::string::npos) << sentence;
  }
}

TEST(PrefillGroups, BytesThatChangeOnTheWayAreRefused) {
  const ModelConfig config = load_config(tiny().path());
  const CacheGeometry geometry =
      cache_geometry(config, resolved(options({.dp = 2, .prefill_groups = 1}, 1), config));
  const bool on_cpu = test::device().is_cpu();
  const std::size_t stream_value = on_cpu ? sizeof(float) : sizeof(Bf16Bits);
  std::mt19937 random(std::random_device{}());
  for (const std::int64_t size :
       {geometry.page_bytes(), geometry.window_page_bytes(), geometry.state_slot_bytes(),
        config.hc_dim() * static_cast<std::int64_t>(stream_value), std::int64_t{280 * sizeof(TokenId)}}) {
    const std::size_t at = random() % static_cast<std::size_t>(size);
    const std::string sentence = refusal([&](std::span<std::byte> message) {
      if (std::ssize(message) == size) message[at] ^= std::byte{1};
    });
    EXPECT_NE(sentence.find("the bytes changed"), std::string::npos)
        << "byte " << at << " of " << size << ": " << sentence;
  }
}

TEST(PrefillGroups, AnotherCacheIsRefused) {
  const std::string sentence = refusal(rename("layers 0 to", "layers 1 to"));
  EXPECT_NE(sentence.find("the state is of another cache"), std::string::npos) << sentence;
}

TEST(PrefillGroups, APrefixThatIsRefusedIsComputedAgain) {
  AlteredEngine altered(rename("window rows", "window ?ows"), 0, true);
  const auto one = open_engine(tiny().path(), options({}));
  const std::vector<TokenId> tokens = test::random_tokens(900, kVocabulary, 8);
  EXPECT_SAME_BITS(reply(*altered, std::span(tokens).first(600), 300),
                   reply(*one, std::span(tokens).first(600), 300));
  altered.arm(true);
  const SequenceId id = *altered->open(tokens);
  altered.arm(false);
  EXPECT_EQ(altered->length(id), 256) << "what the prefill group has itself";
  EXPECT_NE(altered.sentence().find("rank 0: pool window rows: expected "), std::string::npos);
  altered->close(id, false);
  expect_nothing_held(*altered);
  EXPECT_SAME_BITS(reply(*altered, tokens, 800), reply(*one, tokens, 800));
  EXPECT_EQ(altered->transfer_stats()->num_prefixes, 1);
}

TEST(PrefillGroups, ARankThatFailsInATransferEndsTheOthers) {
  AlteredEngine altered([](std::span<std::byte>) { fail("its cable is gone"); }, 0, false);
  const std::vector<TokenId> tokens = test::random_tokens(20, kVocabulary, 9);
  const SequenceId id = *altered->open(tokens);
  static_cast<void>(test::step(*altered, id, tokens, WantedLogits::kLast));
  altered.arm(true);
  try {
    static_cast<void>(altered->reserve(id, 1));
    FAIL();
  } catch (const LostRanks& lost) {
    EXPECT_STREQ(lost.what(), "rank 0 failed: its cable is gone");
  }
}

TEST(PrefillGroups, PlansThatCannotBe) {
  const auto refused = [](EngineOptions wanted) -> std::string {
    try {
      static_cast<void>(open_engine(tiny().path(), wanted));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  for (const ParallelPlan& plan :
       {ParallelPlan{.dp = 2, .prefill_groups = 2}, ParallelPlan{.prefill_groups = 1},
        ParallelPlan{.pp = 2, .prefill_groups = 1}}) {
    EXPECT_NE(refused(options(plan)).find("‹prefill groups›"), std::string::npos);
  }
}

}  // namespace
}  // namespace baleen
