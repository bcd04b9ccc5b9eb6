// A checkpoint's identity follows its config, its tensors' shapes and their bytes, and nothing else.
#include "model/identity.h"

#include <gtest/gtest.h>

#include "model/presets.h"
#include "model_files/made_up.h"
#include "tests/support/random_checkpoint.h"

namespace baleen {
namespace {

std::string identity(const ModelConfig& config, std::uint64_t seed) {
  const test::RandomCheckpoint checkpoint(config, seed);
  return checkpoint_identity(Checkpoint(checkpoint.path()));
}

TEST(CheckpointIdentity, TellsModelsApart) {
  const ModelConfig config = with_layers(preset_config("tiny-flash"), 2);
  const std::string one = identity(config, 1);
  EXPECT_EQ(one.size(), 32u);
  EXPECT_EQ(one, identity(config, 1));  // in another folder
  EXPECT_NE(one, identity(config, 2));
  ModelConfig other = config;
  other.swiglu_limit = 7;
  EXPECT_NE(one, identity(other, 1));
}

/// Weights that are in memory alone.
TEST(CheckpointIdentity, OfMadeUpWeights) {
  ThreadPool pool(1);
  const auto identity = [&](std::uint64_t seed) {
    return checkpoint_identity(made_up_weights(preset_config("tiny-flash"), seed, pool)->checkpoint());
  };
  EXPECT_EQ(identity(1), identity(1));
  EXPECT_NE(identity(1), identity(2));
}

}  // namespace
}  // namespace baleen
