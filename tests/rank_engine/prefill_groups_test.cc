// Groups that compute prompts and groups that decode: the bits of one rank, whatever is sent between them.
#include <gtest/gtest.h>

#include <atomic>
#include <random>

#include "rank_engine/rank_engine.h"
#include "rank_engine/thread_team.h"
#include "tests/support/compare.h"
#include "tests/support/random_checkpoint.h"
#include "tests/support/run_sequence.h"

namespace baleen {
namespace {

constexpr std::int64_t kVocabulary = 512;

const test::RandomCheckpoint& tiny() {
  static const test::RandomCheckpoint checkpoint("tiny-flash");
  return checkpoint;
}

EngineOptions options(const ParallelPlan& plan, std::int64_t max_draft_tokens = 0, bool prefix_cache = false) {
  return {.num_threads = 1,
          .max_batch_tokens = 300,
          .max_logit_rows = 300,
          .max_sequences = 4,
          .cache_tokens = 8192,
          .max_draft_tokens = max_draft_tokens,
          .prefix_cache = prefix_cache,
          .parallel = plan};
}

struct Conversation {
  std::vector<TokenId> tokens;
  std::size_t num_prompt = 0;
  SequenceId id{};
  std::size_t next = 0;
};

void note(std::vector<float>& seen, const ConstActivations<2>& logits) {
  seen.insert(seen.end(), logits.data(), logits.data() + logits.size());
}

/// Prompts of these lengths side by side in chunks of random sizes, then replies with drafts that are taken
/// back in part. All logits that an engine shows of them.
std::vector<float> converse(StepEngine& engine, std::span<const std::size_t> lengths, std::uint32_t seed,
                            std::int64_t num_drafts) {
  std::mt19937 random(seed);
  std::vector<float> seen;
  std::vector<Conversation> all;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    Conversation one{.tokens = test::random_tokens(static_cast<std::int64_t>(lengths[i]) + 12, kVocabulary,
                                                   seed + static_cast<std::uint32_t>(i)),
                     .num_prompt = lengths[i]};
    one.id = *engine.open(std::span(one.tokens).first(one.num_prompt));
    one.next = static_cast<std::size_t>(engine.length(one.id));
    all.push_back(std::move(one));
  }
  const auto is_open = [](const Conversation& one) { return one.next < one.tokens.size(); };
  while (std::ranges::any_of(all, is_open)) {
    std::vector<StepInput> inputs;
    for (Conversation& one : all) {
      if (!is_open(one)) continue;
      const std::size_t most = std::min<std::size_t>(300 / all.size(), 1 + random() % 150);
      if (one.next < one.num_prompt) {
        const std::size_t count = std::min(most, one.num_prompt - one.next);
        const bool ends = one.next + count == one.num_prompt;
        inputs.push_back({one.id, std::span(one.tokens).subspan(one.next, count),
                          ends ? WantedLogits::kLast : WantedLogits::kNone});
        continue;
      }
      const std::size_t count =
          std::min<std::size_t>(1 + static_cast<std::size_t>(num_drafts), one.tokens.size() - one.next);
      EXPECT_TRUE(engine.reserve(one.id, static_cast<std::int64_t>(count)));
      for (std::int64_t depth = 0; depth + 1 < static_cast<std::int64_t>(count); ++depth) {
        const DraftInput draft{one.id, one.tokens[one.next + static_cast<std::size_t>(depth)]};
        const Result<DraftOutput> output = engine.draft({&draft, 1}, depth);
        EXPECT_TRUE(output.ok());
        if (output) note(seen, output.value().logits);
      }
      inputs.push_back({one.id, std::span(one.tokens).subspan(one.next, count), WantedLogits::kAll});
    }
    const Result<StepOutput> output = engine.step(inputs);
    if (!output) {
      ADD_FAILURE() << output.error();
      return seen;
    }
    note(seen, output.value().logits);
    note(seen, output.value().mtp_logits);
    for (const StepInput& input : inputs) {
      Conversation& one = *std::ranges::find(all, input.sequence, &Conversation::id);
      const bool decoded = one.next >= one.num_prompt;
      one.next += input.tokens.size();
      if (decoded && input.tokens.size() > 1 && random() % 2 == 0) {
        --one.next;
        engine.truncate(one.id, static_cast<std::int64_t>(one.next));
      } else if (one.next == one.num_prompt) {
        engine.share(one.id);
      }
    }
  }
  for (const Conversation& one : all) engine.close(one.id, true);
  return seen;
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
  EXPECT_SAME_BITS(converse(*many, lengths, seed, num_drafts), converse(*one, lengths, seed, num_drafts));
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
       {ParallelPlan{.dp = 2, .prefill_groups = 1}, ParallelPlan{.dp = 3, .ep = 1, .moe_tp = 3},
        ParallelPlan{.dp = 2, .pp = 2, .prefill_groups = 1}, ParallelPlan{.dp = 4, .prefill_groups = 2}}) {
    if (plan.prefill_groups == 0) continue;
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
}

}  // namespace
}  // namespace baleen
