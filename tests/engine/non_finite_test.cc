// Weights that are no numbers: the failure says in which layer they are.
#include <gtest/gtest.h>

#include "tests/support/damaged_checkpoint.h"
#include "tests/support/run_sequence.h"
#include "tests/support/test_device.h"

namespace baleen {
namespace {

using test::DamagedCheckpoint;
using test::kNaN;

std::string failure_of(const std::filesystem::path& model, bool mtp, std::size_t chunk = 40) {
  Engine engine(model, {.device = test::device(),
                        .num_threads = 1,
                        .max_batch_tokens = 64,
                        .max_logit_rows = 64,
                        .cache_tokens = 256,
                        .drafts = mtp});
  try {
    static_cast<void>(test::run_sequence(engine, test::random_tokens(40, 512, 1), chunk));
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(NonFinite, NamesTheFirstLayer) {
  // An infinity would not do: activations saturate at 448 times their scale in front of FP8 weights.
  const DamagedCheckpoint damaged("layers.2.attn_norm.weight", kNaN);
  for (const std::size_t chunk : {40, 1}) {
    const std::string sentence = failure_of(damaged.path(), false, chunk);
    EXPECT_NE(sentence.find("first in layer 2 (HCA)"), std::string::npos) << sentence;
    EXPECT_NE(sentence.find("weights are damaged"), std::string::npos) << sentence;
  }
}

TEST(NonFinite, NamesTheHead) {
  const DamagedCheckpoint damaged("norm.weight", kNaN);
  EXPECT_NE(failure_of(damaged.path(), false).find("the head's is not"), std::string::npos);
}

TEST(NonFinite, NamesTheMtpBlock) {
  const DamagedCheckpoint damaged("mtp.0.ffn_norm.weight", kNaN);
  EXPECT_EQ(failure_of(damaged.path(), false), "");  // the main model is sound
  EXPECT_NE(failure_of(damaged.path(), true).find("MTP"), std::string::npos);
}

TEST(NonFinite, ASpoiltSequenceLeavesNothingBehind) {
  const DamagedCheckpoint damaged("embed.weight", kNaN);  // the row of token 0
  Engine engine(damaged.path(), {.device = test::device(),
                                 .num_threads = 1,
                                 .max_batch_tokens = 8,
                                 .max_sequences = 2,
                                 .cache_tokens = 256});
  const SequenceId sound = *engine.open({}), spoilt = *engine.open({});
  const std::vector<TokenId> tokens{1, 2, 3}, bad{0};
  const StepInput both[] = {{sound, tokens, WantedLogits::kLast}, {spoilt, bad, WantedLogits::kLast}};
  EXPECT_FALSE(engine.step(both));
  engine.close(sound, false);
  engine.close(spoilt, false);
  // Slots and pages that NaN went through are as good as new.
  EXPECT_NO_THROW(static_cast<void>(test::step(engine, *engine.open({}), tokens, WantedLogits::kLast)));
  EXPECT_NO_THROW(static_cast<void>(test::step(engine, *engine.open({}), tokens, WantedLogits::kLast)));
}

}  // namespace
}  // namespace baleen
