#include "trainer/run/micro_batches.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "base/error.h"

namespace baleen {
namespace {

using Gradients = Parameters<float>;

Gradients parameters(float first) {
  Gradients made({{.name = "a", .shape = {3}}});
  made.values(0)[0] = first;
  return made;
}

/// Adds 0.1 * (part + 1) in float, the later parts sooner. A part is known by its first token.
LossReport slow_loss(const TrainingBatch& batch, Gradients* gradients) {
  const int part = batch.tokens[0];
  std::this_thread::sleep_for(std::chrono::milliseconds(part % 3 == 0 ? 4 : 0));
  if (gradients != nullptr) {
    for (float& g : gradients->values(0)) g += 0.1F * static_cast<float>(part + 1);
  }
  return {.loss_sum = static_cast<double>(part)};
}

struct PartSums {
  Gradients gradients = parameters(7);  // what was there before does not count
  std::vector<double> losses;           // in the order of `done`
};

PartSums run(std::size_t workers, std::int64_t num_parts, bool forward_only = false) {
  const Gradients weights = parameters(0);
  const PassOptions options;
  PartSums result;
  MicroBatches micro_batches(
      std::vector<LossFunction>(workers, [](const Gradients&, const TrainingBatch& batch, const PassOptions&,
                                            Gradients* gradients) { return slow_loss(batch, gradients); }));
  micro_batches.run(
      {.weights = weights,
       .options = options,
       .parts = {.end = num_parts},
       .take = [](std::int64_t part) { return TrainingBatch{.tokens = {static_cast<TokenId>(part)}}; },
       .done = [&](std::int64_t, const TrainingBatch&,
                   const LossReport& report) { result.losses.push_back(report.loss_sum); },
       .gradients = forward_only ? nullptr : &result.gradients});
  return result;
}

TEST(MicroBatches, AreSummedInTheirOrderHoweverManyAtATime) {
  const PartSums alone = run(1, 11);
  const auto of = [](int part) { return 0.1F * static_cast<float>(part); };
  const float first_eight = ((of(1) + of(2)) + (of(3) + of(4))) + ((of(5) + of(6)) + (of(7) + of(8)));
  EXPECT_EQ(alone.gradients.values(0)[2], first_eight + ((of(9) + of(10)) + of(11)));
  for (const std::size_t workers : {2U, 3U, 8U, 20U}) {
    const PartSums together = run(workers, 11);
    EXPECT_EQ(together.losses, alone.losses) << workers;
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_EQ(together.gradients.values(0)[i], alone.gradients.values(0)[i]) << workers;
  }
}

TEST(MicroBatches, NoneAndForwardOnly) {
  const PartSums none = run(3, 0);
  EXPECT_TRUE(none.losses.empty());
  EXPECT_EQ(none.gradients.values(0)[0], 0);
  const PartSums forward = run(3, 4, true);
  EXPECT_EQ(forward.losses, (std::vector<double>{0, 1, 2, 3}));
  EXPECT_EQ(forward.gradients.values(0)[0], 7);
}

TEST(MicroBatches, AnErrorOfOneEndsThemAll) {
  const Gradients weights = parameters(0);
  const PassOptions options;
  int num_done = 0;
  MicroBatches micro_batches(
      std::vector<LossFunction>(4, [](const Gradients&, const TrainingBatch& batch, const PassOptions&,
                                      Gradients* gradients) { return slow_loss(batch, gradients); }));
  const auto fails = [&] {
    micro_batches.run({.weights = weights,
                       .options = options,
                       .parts = {.end = 100},
                       .take =
                           [](std::int64_t part) {
                             if (part == 5) fail("part 5 is damaged");
                             return TrainingBatch{.tokens = {static_cast<TokenId>(part)}};
                           },
                       .done = [&](std::int64_t, const TrainingBatch&, const LossReport&) { ++num_done; }});
  };
  EXPECT_THROW(fails(), Error);
  EXPECT_LE(num_done, 5);
}

}  // namespace
}  // namespace baleen
