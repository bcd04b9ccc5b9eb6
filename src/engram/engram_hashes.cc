#include "engram/engram_hashes.h"

#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "tokenizer/compressed_vocabulary.h"

namespace baleen {

EngramHashes::EngramHashes(const ModelConfig& config, std::vector<TokenId> compressed)
    : tables_(engram_tables(*config.engram)), compressed_(std::move(compressed)) {
  const auto pad = static_cast<std::size_t>(config.engram->pad_token_id);
  BALEEN_CHECK_LE(pad + 1, compressed_.size());
  // By more the hashes would overflow: multipliers are as large as these ids let them be.
  for (const TokenId id : compressed_) BALEEN_CHECK(0 <= id && id < config.engram->compressed_vocab_size);
  if (std::ssize(compressed_) < config.vocab_size)
    compressed_.resize(static_cast<std::size_t>(config.vocab_size), compressed_[pad]);
  tokens_ = {.compressed = compressed_,
             .pad_token = static_cast<TokenId>(pad),
             .image_token = static_cast<TokenId>(config.engram->image_token_id)};
}

void EngramHashes::find(std::span<const EngramRun> runs, View<std::int64_t, 3> rows) const {
  std::int64_t first = 0;
  for (const EngramRun& run : runs) {
    const auto count = std::ssize(run.ids);
    for (std::int64_t table = 0; table < num_tables(); ++table) {
      engram_rows(tables_[static_cast<std::size_t>(table)], tokens_, run.before, run.ids,
                  {&rows(first, table, 0), {count, num_hashes()}, {rows.stride(0), 1}});
    }
    first += count;
  }
  BALEEN_CHECK_EQ(first, rows.extent(0));
}

std::vector<TokenId> engram_vocabulary(const EngramConfig& config, const Tokenizer& tokenizer) {
  CompressedVocabulary vocabulary = compress_vocabulary(tokenizer);
  if (const std::string why = why_not_vocabulary(vocabulary, config.compressed_vocab_size); !why.empty())
    fail("tokenizer.json: {}", why);
  return std::move(vocabulary.of_token);
}

}  // namespace baleen
