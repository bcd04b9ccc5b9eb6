// A checkpoint's identity follows its config, its tensors' shapes and their bytes, and nothing else.
#include "model/identity.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace baleen
