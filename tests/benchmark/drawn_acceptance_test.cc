// An engine whose drafts are right as often as is drawn.

#include "benchmark/drawn_acceptance.h"

#include <gtest/gtest.h>

#include <cmath>

#include "simulator/graph/workload.h"

namespace baleen {
namespace {

/// Chooses 7 for every row, and drafts 7, 8, 9, ...
class SevenEngine final : public StepEngine {
 public:
  [[nodiscard]] std::int64_t length(SequenceId /*sequence*/) const override { return length_; }
  [[nodiscard]] bool reserve(SequenceId /*sequence*/, std::int64_t /*count*/) override { return true; }
  void share(SequenceId /*sequence*/) override {}
  void close(SequenceId /*sequence*/, bool /*keep*/) override {}
  [[nodiscard]] CacheUse cache_use() const override { return {}; }
  [[nodiscard]] EngineLimits limits() const override { return {.chooses = true, .queues = true}; }
  [[nodiscard]] std::optional<SequenceId> open(std::span<const TokenId> /*prompt*/) override { return {}; }
  [[nodiscard]] Result<StepOutput> step(std::span<const StepInput> inputs) override {
    chosen_.clear();
    drafted_.clear();
    for (const StepInput& input : inputs) {
      chosen_.insert(chosen_.end(), input.draws.size(), 7);
      for (std::int64_t i = 0; i < input.num_drafts; ++i)
        drafted_.push_back(i == missing_ ? kNoToken : static_cast<TokenId>(7 + i));
    }
    ++length_;
    return StepOutput{.chosen = chosen_, .drafted = drafted_};
  }
  [[nodiscard]] std::optional<Failure> queue(std::span<const StepInput> inputs) override {
    queued_ = step(inputs).value();
    return {};
  }
  [[nodiscard]] Result<StepOutput> collect() override { return queued_; }
  void truncate(SequenceId /*sequence*/, std::int64_t /*length*/) override {}
  [[nodiscard]] Result<DraftOutput> draft(std::span<const DraftInput> /*inputs*/,
                                          std::int64_t /*depth*/) override {
    return DraftOutput();
  }
  [[nodiscard]] std::vector<RadixNodeSummary> tree(std::size_t /*most*/) const override { return {}; }

  std::int64_t missing_ = -1;  ///< place of a draft that the logits do not give

 private:
  std::int64_t length_ = 1;
  std::vector<TokenId> chosen_, drafted_;
  StepOutput queued_;
};

constexpr std::int64_t kDrafts = 3;
const TokenId kNewest[] = {5};

/// A sequence without drafts, then one with; what the step says of the latter.
std::int64_t accepted_of_a_step(StepEngine& engine) {
  const std::vector<SampleRow> draws(kDrafts + 1);
  const StepInput inputs[] = {
      {.sequence = SequenceId{1}, .tokens = kNewest, .draws = std::span(draws).first(1)},
      {.sequence = SequenceId{2}, .tokens = kNewest, .draws = draws, .num_drafts = kDrafts}};
  EXPECT_FALSE(engine.queue(inputs));
  const StepOutput output = engine.collect().value();
  EXPECT_EQ(std::ssize(output.chosen), 2 + kDrafts);
  EXPECT_EQ(output.chosen.front(), 7) << "nothing to accept";
  return num_accepted(output.drafted, output.chosen.subspan(1));
}

TEST(DrawnAcceptance, AllOrNothing) {
  SevenEngine seven;
  AcceptingEngine all(seven, Acceptance::of_chain({1}, 1)), none(seven, Acceptance::of_chain({0}, 1));
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(accepted_of_a_step(all), kDrafts);
    EXPECT_EQ(accepted_of_a_step(none), 0) << "also where the engine would have agreed with the first draft";
  }
}

TEST(DrawnAcceptance, BehindADraftThatIsNoneNothingIsRight) {
  SevenEngine seven;
  seven.missing_ = 1;
  AcceptingEngine all(seven, Acceptance::of_chain({1}, 1));
  EXPECT_EQ(accepted_of_a_step(all), 1);
}

TEST(DrawnAcceptance, AsManyTokensAStepAsWanted) {
  constexpr double kTokensAStep = 2.5;
  constexpr int kSteps = 20'000;
  const double share = acceptance_for(kTokensAStep, kDrafts);
  EXPECT_NEAR(1 + share + share * share + std::pow(share, 3), kTokensAStep, 1e-9);
  SevenEngine seven, again;
  AcceptingEngine first(seven, Acceptance::of_chain({share}, 9)),
      second(again, Acceptance::of_chain({share}, 9));
  double tokens = 0;
  for (int i = 0; i < kSteps; ++i) {
    const std::int64_t accepted = accepted_of_a_step(first);
    EXPECT_EQ(accepted, accepted_of_a_step(second)) << "the same seed";
    tokens += static_cast<double>(1 + accepted);
  }
  EXPECT_NEAR(tokens / kSteps, kTokensAStep, 0.03);
}

/// Drafts that the caller fed himself.
TEST(DrawnAcceptance, OfStepsThatAreWaitedFor) {
  SevenEngine seven;
  AcceptingEngine all(seven, Acceptance::of_chain({1}, 1));
  const TokenId fed[] = {5, 31, 32};
  const std::vector<SampleRow> draws(3);
  const StepInput input{
      .sequence = SequenceId{2}, .tokens = fed, .wanted = WantedLogits::kAll, .draws = draws};
  const StepOutput output = all.step({&input, 1}).value();
  EXPECT_EQ(num_accepted(std::span(fed).subspan(1), output.chosen), 2);
}

TEST(Acceptance, ByPositionOfWhatWasChecked) {
  const std::vector<DraftsAtDepth> drafts{
      {.drafted = 1000, .accepted = 579}, {.drafted = 500, .accepted = 0}, {}};
  EXPECT_EQ(acceptance_text(drafts), "drafts accepted, by position: 57.9% 0.0%");
  EXPECT_EQ(acceptance_json(drafts)[0].dump(), R"({"drafted":1000,"accepted":579})");
}

}  // namespace
}  // namespace baleen
