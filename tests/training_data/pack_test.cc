// Packing and reading back: the same tokens and masks, whatever the threads and shards; nothing half; damage
// found.
#include "training_data/pack.h"
#include "training_data/packed_files.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "tests/training_data/packed_corpus.h"
#include "training_data/token_shards.h"

namespace baleen {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;
using Document = std::pair<std::vector<TokenId>, std::vector<std::uint8_t>>;

Document document_of(const TokenShards& shards, std::int64_t i) {
  const auto size = static_cast<std::size_t>(shards.document_size(i));
  Document document{std::vector<TokenId>(size), std::vector<std::uint8_t>(size)};
  shards.read(i, 0, document.first, document.second);
  return document;
}

std::vector<Document> documents_of(const TokenShards& shards) {
  std::vector<Document> documents;
  for (std::int64_t i = 0; i < shards.num_documents(); ++i) documents.push_back(document_of(shards, i));
  return documents;
}

std::vector<Document> encoded(const std::vector<nlohmann::json>& lines) {
  const Tokenizer tokenizer = Tokenizer::load("models/stories");
  std::vector<Document> documents;
  for (const nlohmann::json& line : lines) {
    const CorpusRecord record{line.dump(), CorpusFormat::kJsonLines, 0, 1};
    const Result<TokenDocument> document = encode_document(tokenizer, training_text_of(record, {}).value());
    documents.emplace_back(document.value().tokens, document.value().is_target);
  }
  return documents;
}

std::string error_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST(Pack, GivesBackEveryDocument) {
  rc::check("random corpora", [](std::uint64_t seed) {
    const TemporaryFolder folder;
    const std::vector<nlohmann::json> lines =
        test::random_texts(seed, 2 + static_cast<int>(seed % 40), 1 + static_cast<int>(seed % 60));
    PackOptions options = test::pack_options(folder, lines);
    options.shard_tokens = 1 + static_cast<std::int64_t>(seed % 400);
    options.num_threads = 1 + static_cast<int>(seed % 3);
    options.seed = seed;
    const PackResult result = pack_corpus(options);
    const TokenShards shards = TokenShards::open(options.out, DataSplit::kTrain, ShardCheck::kContents);
    std::vector<Document> found = documents_of(shards), expected = encoded(lines);
    RC_ASSERT(shards.num_documents() == static_cast<std::int64_t>(lines.size()));
    std::int64_t num_tokens = 0, num_targets = 0;
    for (const auto& [tokens, targets] : found) {
      num_tokens += static_cast<std::int64_t>(tokens.size());
      num_targets += std::ranges::count(targets, 1);
    }
    std::ranges::sort(found);
    std::ranges::sort(expected);
    RC_ASSERT(found == expected);
    RC_ASSERT(shards.num_tokens() == num_tokens);
    RC_ASSERT(shards.num_targets() == num_targets);
    RC_ASSERT(result.train.num_tokens == num_tokens);
  });
}

std::map<std::string, std::string> files_of(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder))
    files[entry.path().filename()] = read_text_file(entry.path());
  return files;
}

TEST(Pack, DependsOnTheSeedAndNotOnThreads) {
  const TemporaryFolder folder;
  PackOptions options = test::pack_options(folder, test::random_texts(5, 200, 30));
  options.held_out_share = 0.2;
  options.shard_tokens = 1000;
  const auto pack = [&](const char* name, std::uint64_t seed, int num_threads) {
    options.out = folder / name;
    options.seed = seed;
    options.num_threads = num_threads;
    pack_corpus(options);
    return files_of(options.out);
  };
  const auto one = pack("one", 7, 1);
  EXPECT_EQ(pack("two", 7, 3), one);
  EXPECT_NE(pack("three", 8, 1), one);
  EXPECT_TRUE(one.contains("train-00001.tokens"));
  EXPECT_TRUE(one.contains("tokenizer.json"));
  EXPECT_FALSE(one.contains("documents.spool"));
}

TEST(Pack, HoldsOutAShareAndNeverADocumentOfBothSides) {
  const TemporaryFolder folder;
  std::vector<nlohmann::json> lines = test::random_texts(6, 400, 20);
  for (int i = 0; i < 400; ++i) lines.push_back(lines[i]);
  PackOptions options = test::pack_options(folder, lines);
  options.held_out_share = 0.25;
  const PackResult result = pack_corpus(options);
  EXPECT_EQ(result.train.num_documents + result.held_out.num_documents, 800);
  EXPECT_NEAR(static_cast<double>(result.held_out.num_documents), 200, 60);
  const std::vector<Document> train = documents_of(TokenShards::open(options.out, DataSplit::kTrain));
  for (const Document& document : documents_of(TokenShards::open(options.out, DataSplit::kHeldOut)))
    EXPECT_EQ(std::ranges::count(train, document), 0);
}

TEST(Pack, HeldOutFilesAreTheHeldOutSplit) {
  const TemporaryFolder folder;
  PackOptions options = test::pack_options(folder, test::random_texts(1, 20, 9));
  const std::vector<nlohmann::json> held_out = test::random_texts(2, 5, 9);
  test::write_lines(folder / "valid.jsonl", held_out);
  options.held_out_files = {folder / "valid.jsonl"};
  pack_corpus(options);
  std::vector<Document> found = documents_of(TokenShards::open(options.out, DataSplit::kHeldOut)),
                        expected = encoded(held_out);
  std::ranges::sort(found);
  std::ranges::sort(expected);
  EXPECT_EQ(found, expected);
}

TEST(Pack, NamesTheLineOfABadRecordAndLeavesNothing) {
  const TemporaryFolder folder;
  PackOptions options =
      test::pack_options(folder, {{{"text", "one"}}, {{"text", "two"}}, {{"txt", "three"}}});
  const std::string error = error_of([&] { pack_corpus(options); });
  EXPECT_NE(error.find("corpus.jsonl, line 3: no \"text\" here"), std::string::npos) << error;
  EXPECT_FALSE(fs::exists(options.out));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

TEST(Pack, ReplacesOnlyWhenToldAndOnlyPackedData) {
  const TemporaryFolder folder;
  PackOptions options = test::pack_options(folder, test::random_texts(3, 50, 30));
  options.shard_tokens = 100;
  pack_corpus(options);
  EXPECT_NE(error_of([&] { pack_corpus(options); }).find("pass ‹force› to replace the packed corpus"),
            std::string::npos);
  options.replace = true;
  options.shard_tokens = 1 << 20;
  pack_corpus(options);
  EXPECT_FALSE(fs::exists(options.out / "train-00001.tokens"));
  std::ofstream(options.out / "mine.txt") << "x";
  EXPECT_NE(error_of([&] { pack_corpus(options); }).find("mine.txt"), std::string::npos);
}

TEST(Pack, ATooSmallCorpusHasNoSplit) {
  const TemporaryFolder folder;
  PackOptions options = test::pack_options(folder, test::random_texts(3, 1, 3));
  options.held_out_share = 0.5;
  EXPECT_NE(error_of([&] { pack_corpus(options); }).find("the corpus is too small"), std::string::npos);
}

TEST(Pack, MoreShardsThanAProcessCanMapAreRefused) {
  const TemporaryFolder folder;
  std::vector<nlohmann::json> lines;
  for (int i = 0; i <= 2 * kMaxShards; ++i) lines.push_back({{"text", "a"}});
  PackOptions options = test::pack_options(folder, lines);
  for (const std::int64_t shard_tokens : {1, 4}) {  // while documents are read; once their order is known
    options.shard_tokens = shard_tokens;
    const std::string error = error_of([&] { pack_corpus(options); });
    EXPECT_NE(error.find("‹shard tokens›"), std::string::npos) << error;
    EXPECT_NE(error.find("more than 4,096 files; expected at least"), std::string::npos) << error;
    EXPECT_FALSE(fs::exists(options.out));
  }
  options.shard_tokens = 7;
  pack_corpus(options);
  EXPECT_EQ(TokenShards::open(options.out, DataSplit::kTrain).num_documents(), 2 * kMaxShards + 1);
}

TEST(PackedFiles, AFileThatVanishedOrChangedIsNamed) {
  const TemporaryFolder folder;
  PackOptions options = test::pack_options(folder, test::random_texts(9, 60, 20));
  options.held_out_share = 0.3;
  options.shard_tokens = 300;
  pack_corpus(options);
  const auto open = [&] { (void)TokenShards::open(options.out, DataSplit::kTrain); };
  EXPECT_TRUE(TokenShards::open(options.out, DataSplit::kTrain).are_listed());
  EXPECT_TRUE(TokenShards::has(options.out, DataSplit::kHeldOut));
  for (const fs::directory_entry& entry : fs::directory_iterator(options.out)) {
    const std::string name = entry.path().filename();
    if (name == kPackedFilesName) continue;
    const std::string whole = read_text_file(entry.path());
    fs::remove(entry.path());
    EXPECT_NE(error_of(open).find(name + ": missing"), std::string::npos) << error_of(open);
    std::ofstream(entry.path(), std::ios::binary) << whole;
    if (name.ends_with(".json")) {
      std::ofstream(entry.path(), std::ios::binary) << whole << " ";
      EXPECT_NE(error_of(open).find(name + ": not the bytes"), std::string::npos) << error_of(open);
      std::ofstream(entry.path(), std::ios::binary) << whole;
    }
  }
  EXPECT_EQ(error_of(open), "none");
  // A shard of another pack with the same tokenizer.
  PackOptions other = options;
  other.seed = 2;
  other.out = folder / "other";
  pack_corpus(other);
  fs::copy_file(other.out / "train-00001.tokens", options.out / "train-00001.tokens",
                fs::copy_options::overwrite_existing);
  EXPECT_NE(error_of(open), "none");
  fs::remove(options.out / kPackedFilesName);
  EXPECT_FALSE(TokenShards::open(other.out, DataSplit::kTrain).checksum().empty());
}

TEST(TokenShards, EveryDamagedByteIsFound) {
  const TemporaryFolder folder;
  PackOptions options = test::pack_options(folder, test::random_texts(9, 12, 20));
  pack_corpus(options);
  const fs::path path = options.out / "train-00000.tokens";
  const std::string whole = read_text_file(path);
  const auto open = [&] { (void)TokenShards::open(options.out, DataSplit::kTrain, ShardCheck::kContents); };
  const auto write = [&path](const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; };
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string bytes = whole;
    bytes[i] = static_cast<char>(bytes[i] ^ 0x40);
    write(bytes);
    ASSERT_NE(error_of(open), "none") << "byte " << i;
  }
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{95}, whole.size() - 1}) {
    write(whole.substr(0, size));
    ASSERT_NE(error_of(open), "none") << size << " bytes";
  }
  write(whole + "x");
  EXPECT_NE(error_of(open), "none");
  write(whole);
  EXPECT_EQ(error_of(open), "none");
}

TEST(TokenShards, MissingAndForeignFiles) {
  const TemporaryFolder folder;
  PackOptions options = test::pack_options(folder, test::random_texts(9, 60, 20));
  options.shard_tokens = 300;
  pack_corpus(options);
  const auto open = [&] { (void)TokenShards::open(options.out, DataSplit::kTrain); };
  EXPECT_NE(
      error_of([&] { (void)TokenShards::open(options.out, DataSplit::kHeldOut); }).find("no held-out data"),
      std::string::npos);
  fs::copy_file(options.out / "train-00000.tokens", options.out / "train-00001.tokens",
                fs::copy_options::overwrite_existing);
  EXPECT_NE(error_of(open).find("was it renamed?"), std::string::npos);
  fs::remove(options.out / "train-00001.tokens");
  EXPECT_NE(error_of(open), "none");
}

}  // namespace
}  // namespace baleen
