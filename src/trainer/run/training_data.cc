#include "trainer/run/training_data.h"

#include "base/error.h"
#include "base/number.h"
#include "base/progress.h"
#include "log/log.h"

namespace baleen {

TokenShards open_training_data(const std::filesystem::path& folder, DataSplit split, const ModelConfig& model,
                               const TrainingRanks& ranks) {
  TokenShards shards = TokenShards::open(folder, split);
  if (shards.vocab_size() > model.vocab_size) {
    fail("{}: packed with a vocabulary of {}; expected at most model.vocab_size, {}", folder.string(),
         grouped(shards.vocab_size()), grouped(model.vocab_size));
  }
  if (split == DataSplit::kTrain && !shards.are_listed() && ranks.is_first()) {
    log_line(
        "{}: packed by an earlier version, without a list of its files: one that is missing is not "
        "noticed; `baleen data pack` writes it",
        folder.string());
  }
  const auto num_shards = static_cast<std::int64_t>(shards.shards().size());
  Progress progress("checking data", "shards", num_shards);
  for (std::int64_t shard = ranks.rank(); shard < num_shards; shard += ranks.size()) {
    shards.check_contents(static_cast<std::size_t>(shard));
    progress.update(shard + 1);
  }
  return shards;
}

std::map<std::string, std::string> data_checksums(const TokenShards& training, const TokenShards* held_out) {
  std::map<std::string, std::string> checksums{{"training split", training.checksum()}};
  if (held_out != nullptr) checksums["held-out split"] = held_out->checksum();
  return checksums;
}

}  // namespace baleen
