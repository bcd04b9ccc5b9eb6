#include "training_data/pack.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/file.h"
#include "base/number.h"
#include "checkpoint/checkpoint_writer.h"
#include "model_files/folder.h"
#include "model_files/staged_folder.h"
#include "parallel/thread_pool.h"
#include "tokenizer/tokenizer.h"
#include "training_data/document_spool.h"
#include "training_data/keyed_permutation.h"
#include "training_data/packed_files.h"
#include "training_data/shard_writer.h"

namespace baleen {
namespace {

constexpr std::string_view kSpoolName = "documents.spool";

[[noreturn]] void fail_many_shards(std::int64_t num_tokens, std::int64_t shard_tokens) {
  fail("‹shard tokens› {}: {} tokens would become more than {} files; expected at least {}",
       grouped(shard_tokens), grouped(num_tokens), grouped(kMaxShards), grouped(num_tokens / kMaxShards + 1));
}

/// Tokenises all of `corpus` into `spool`, in its order.
void spool_corpus(Corpus& corpus, const Tokenizer& tokenizer, const PackOptions& options, ThreadPool& pool,
                  DocumentSpool& spool) {
  std::vector<CorpusRecord> records;
  std::vector<std::optional<Result<TokenDocument>>> documents;
  std::int64_t num_tokens = 0, longest = 0;
  while (corpus.next_records(records, kRecordBytesAtOnce)) {
    documents.clear();
    documents.resize(records.size());
    pool.parallel_for(static_cast<std::int64_t>(records.size()), [&](std::int64_t item, int) {
      const auto i = static_cast<std::size_t>(item);
      const Result<TrainingText> text = training_text_of(records[i], options.rules);
      documents[i] = text ? encode_document(tokenizer, text.value()) : Failure{text.error()};
    });
    for (std::size_t i = 0; i < records.size(); ++i) {
      if (!documents[i]->ok()) fail("{}: {}", corpus.place(records[i]), documents[i]->error());
      spool.add(documents[i]->value());
      const std::int64_t size = spool.entries().back().num_tokens;
      num_tokens += size;
      longest = std::max(longest, size);
    }
    // A shard is at most this long, in any order of the documents.
    if (num_tokens / (options.shard_tokens + longest) > kMaxShards)
      fail_many_shards(num_tokens, options.shard_tokens);
    if (options.progress) options.progress(corpus.bytes_read(), corpus.size());
  }
}

/// The documents of one split, shuffled: sorted by a hash of seed and place.
std::vector<std::uint64_t> shuffled(std::vector<std::uint64_t> documents, std::uint64_t seed) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> keyed;
  keyed.reserve(documents.size());
  for (const std::uint64_t document : documents)
    keyed.emplace_back(mixed_bits(mixed_bits(seed) ^ document), document);
  std::ranges::sort(keyed);
  for (std::size_t i = 0; i < keyed.size(); ++i) documents[i] = keyed[i].second;
  return documents;
}

bool is_held_out(const DocumentSpool::Entry& entry, const PackOptions& options) {
  const std::uint64_t drawn = mixed_bits(mixed_bits(options.seed + 1) ^ entry.content_hash) >> 11;
  return std::ldexp(static_cast<double>(drawn), -53) < options.held_out_share;
}

/// Cuts `order` into shards and writes them.
ShardTotals write_split(const std::filesystem::path& folder, ShardHeader header, const DocumentSpool& spool,
                        std::span<const std::uint64_t> order, std::int64_t shard_tokens) {
  std::vector<std::size_t> ends;
  std::int64_t num_tokens = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    num_tokens += spool.entries()[order[i]].num_tokens;
    if (num_tokens < shard_tokens && i + 1 < order.size()) continue;
    ends.push_back(i + 1);
    num_tokens = 0;
  }
  if (std::ssize(ends) > kMaxShards) {
    std::int64_t all_tokens = 0;
    for (const std::uint64_t document : order) all_tokens += spool.entries()[document].num_tokens;
    fail_many_shards(all_tokens, shard_tokens);
  }
  header.num_shards = static_cast<std::uint32_t>(ends.size());
  ShardTotals all;
  std::size_t begin = 0;
  for (; header.shard < header.num_shards; ++header.shard) {
    const std::size_t end = ends[header.shard];
    const ShardTotals totals = write_shard(folder, header, spool, order.subspan(begin, end - begin));
    all.num_documents += totals.num_documents;
    all.num_tokens += totals.num_tokens;
    all.num_targets += totals.num_targets;
    all.num_text_bytes += totals.num_text_bytes;
    begin = end;
  }
  return all;
}

/// Files that an earlier pack may have left in `folder`, and that this one may replace.
std::vector<std::string> shard_files_in(const std::filesystem::path& folder) {
  std::vector<std::string> names{kPackedFilesName};
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    std::string name = entry.path().filename();
    if (is_shard_file_name(name)) names.push_back(std::move(name));
  }
  return names;
}

/// tokenizer.json first.
std::vector<TextFile> read_tokenizer(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return tokenizer_files(path);
  return {{"tokenizer.json", read_text_file(path)}};
}

}  // namespace

PackResult pack_corpus(const PackOptions& options) {
  BALEEN_CHECK(options.held_out_share == 0 || options.held_out_files.empty());
  Corpus corpus(options.files, options.format, TextRecords::kFiles);
  Corpus held_out_corpus(options.held_out_files, options.format, TextRecords::kFiles);
  const Tokenizer tokenizer = Tokenizer::load(options.tokenizer);
  const std::vector<TextFile> tokenizer_text = read_tokenizer(options.tokenizer);
  StagedFolder staged(options.out, options.replace, shard_files_in(options.out), "packed corpus");
  ThreadPool pool(options.num_threads);

  DocumentSpool spool(staged.path() / kSpoolName);
  spool_corpus(corpus, tokenizer, options, pool, spool);
  const std::size_t num_of_files = spool.entries().size();
  spool_corpus(held_out_corpus, tokenizer, options, pool, spool);
  spool.finish();

  std::vector<std::uint64_t> train, held_out;
  for (std::size_t i = 0; i < spool.entries().size(); ++i) {
    const bool out = i >= num_of_files || is_held_out(spool.entries()[i], options);
    (out ? held_out : train).push_back(i);
  }
  const bool wants_held_out = options.held_out_share > 0 || !options.held_out_files.empty();
  if (train.empty() || (wants_held_out && held_out.empty())) {
    fail("the corpus is too small: {} documents, of which {} train and {} are held out",
         spool.entries().size(), train.size(), held_out.size());
  }

  ShardHeader header;
  header.token_bytes = token_bytes_of(tokenizer.vocab_size());
  header.vocab_size = static_cast<std::uint32_t>(tokenizer.vocab_size());
  header.tokenizer = hash_tokenizer(tokenizer_text.front().text);
  header.seed = options.seed;
  PackResult result;
  result.train = write_split(staged.path(), header, spool, shuffled(std::move(train), options.seed),
                             options.shard_tokens);
  header.split = DataSplit::kHeldOut;
  result.held_out = write_split(staged.path(), header, spool, shuffled(std::move(held_out), options.seed),
                                options.shard_tokens);
  for (const TextFile& file : tokenizer_text) {
    AtomicFileWriter writer(staged.path() / file.name);
    writer.write(file.text);
    writer.commit();
  }
  std::filesystem::remove(staged.path() / kSpoolName);
  PackedFiles::of_folder(staged.path()).write(staged.path());
  staged.commit();
  return result;
}

}  // namespace baleen
