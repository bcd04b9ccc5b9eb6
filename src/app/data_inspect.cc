#include "app/data_inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "app/commands.h"
#include "app/options.h"
#include "base/file.h"
#include "base/number.h"
#include "base/quoted_text.h"
#include "tokenizer/tokenizer.h"
#include "training_data/token_shards.h"

namespace baleen {
namespace {

struct DataInspectFlags {
  std::string folder;
  std::int64_t num_samples = 2;
  bool verify = false;
  bool json = false;
};

/// Some tokens from the beginning of a document, as text.
constexpr std::int64_t kSampleTokens = 48;

struct Sample {
  std::int64_t document = 0;
  std::int64_t num_tokens = 0;
  std::int64_t num_targets = 0;
  std::string text;
};

Sample sample_of(const TokenShards& shards, const Tokenizer& tokenizer, std::int64_t document) {
  const std::int64_t size = shards.document_size(document);
  std::vector<TokenId> tokens(static_cast<std::size_t>(std::min(size, kSampleTokens)));
  std::vector<std::uint8_t> is_target(tokens.size());
  shards.read(document, 0, tokens, is_target);
  return {document, size, shards.count_targets(document, 0, size), tokenizer.decode(tokens)};
}

std::vector<Sample> samples_of(const TokenShards& shards, const Tokenizer& tokenizer, std::int64_t count) {
  std::vector<Sample> samples;
  const std::int64_t num = std::min(count, shards.num_documents());
  for (std::int64_t i = 0; i < num; ++i)
    samples.push_back(sample_of(shards, tokenizer, i * shards.num_documents() / num));
  return samples;
}

ShardTotals totals_of(const TokenShards& shards) {
  return {shards.num_documents(), shards.num_tokens(), shards.num_targets(), shards.num_text_bytes()};
}

nlohmann::ordered_json split_json(const TokenShards& shards, const std::vector<Sample>& samples) {
  nlohmann::ordered_json json = {{"shards", shards.shards().size()},
                                 {"documents", shards.num_documents()},
                                 {"tokens", shards.num_tokens()},
                                 {"targets", shards.num_targets()},
                                 {"text_bytes", shards.num_text_bytes()},
                                 {"vocab_size", shards.vocab_size()},
                                 {"token_bytes", shards.shards().front().token_bytes},
                                 {"seed", shards.shards().front().seed},
                                 {"samples", nlohmann::ordered_json::array()}};
  for (const Sample& sample : samples) {
    json["samples"].push_back({{"document", sample.document},
                               {"tokens", sample.num_tokens},
                               {"targets", sample.num_targets},
                               {"text", sample.text}});
  }
  return json;
}

void print_samples(DataSplit split, const std::vector<Sample>& samples) {
  for (const Sample& sample : samples) {
    fmt::print("\n{} document {} ({} tokens, {} targets):\n{}\n", split_name(split), sample.document,
               sample.num_tokens, sample.num_targets, quoted_text(sample.text, 400));
  }
}

void run_data_inspect(const DataInspectFlags& flags) {
  const std::filesystem::path folder = flags.folder;
  const ShardCheck check = flags.verify ? ShardCheck::kContents : ShardCheck::kHeader;
  std::vector<std::pair<DataSplit, TokenShards>> splits;
  splits.emplace_back(DataSplit::kTrain, TokenShards::open(folder, DataSplit::kTrain, check));
  if (TokenShards::has(folder, DataSplit::kHeldOut))
    splits.emplace_back(DataSplit::kHeldOut, TokenShards::open(folder, DataSplit::kHeldOut, check));
  const std::string tokenizer_json = read_text_file(folder / "tokenizer.json");
  for (const auto& [split, shards] : splits) {
    if (hash_tokenizer(tokenizer_json) != shards.tokenizer_hash())
      fail("{}: not the tokenizer that the {} shards were written with", (folder / "tokenizer.json").string(),
           split_name(split));
  }
  const Tokenizer tokenizer = Tokenizer::load(folder);
  if (flags.json) {
    nlohmann::ordered_json json;
    for (const auto& [split, shards] : splits)
      json[std::string(split_name(split))] =
          split_json(shards, samples_of(shards, tokenizer, flags.num_samples));
    fmt::print("{}\n", json.dump());
    return;
  }
  print_data_head();
  for (const auto& [split, shards] : splits) print_data_totals(split, totals_of(shards));
  const ShardHeader& first = splits.front().second.shards().front();
  fmt::print("vocabulary {}, {} bytes a token, seed {}{}\n", grouped(std::int64_t{first.vocab_size}),
             first.token_bytes, first.seed, flags.verify ? ", checksums match" : "");
  if (!splits.front().second.are_listed())
    fmt::print("packed by an earlier version, without a list of its files: a missing one is not noticed\n");
  for (const auto& [split, shards] : splits)
    print_samples(split, samples_of(shards, tokenizer, flags.num_samples));
}

}  // namespace

void print_data_head() {
  fmt::print("{:<10}{:>14}{:>16}{:>16}{:>18}{:>16}\n", "split", "documents", "tokens", "targets",
             "bytes of text", "bytes/token");
}

void print_data_totals(DataSplit split, const ShardTotals& totals) {
  const double bytes_per_token =
      static_cast<double>(totals.num_text_bytes) / static_cast<double>(totals.num_tokens);
  fmt::print("{:<10}{:>14}{:>16}{:>16}{:>18}{:>16.3f}\n", split_name(split), grouped(totals.num_documents),
             grouped(totals.num_tokens), grouped(totals.num_targets), grouped(totals.num_text_bytes),
             bytes_per_token);
}

void add_data_inspect_command(Options& command) {
  const auto flags = std::make_shared<DataInspectFlags>();
  command.path("folder", flags->folder, "Folder that `data pack` wrote").required();
  command.integer("--samples", flags->num_samples, {0, 1000},
                  "Documents of each split to show the beginning of");
  command.flag("--verify", flags->verify, "Read every byte and compare the checksums");
  command.flag("--json", flags->json, "One line of JSON");
  command.action([flags] { run_data_inspect(*flags); });
}

}  // namespace baleen
