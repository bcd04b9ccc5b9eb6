#include "trainer/run/training_data.h"

#include "base/error.h"
#include "base/number.h"

namespace baleen {

TokenShards open_training_data(const std::filesystem::path& folder, const ModelConfig& model) {
  TokenShards shards = TokenShards::open(folder, DataSplit::kTrain);
  if (shards.vocab_size() > model.vocab_size) {
    fail("{}: packed with a vocabulary of {}; expected at most model.vocab_size, {}", folder.string(),
         grouped(shards.vocab_size()), grouped(model.vocab_size));
  }
  return shards;
}

}  // namespace baleen
