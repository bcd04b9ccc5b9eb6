#include "training_data/corpus_words.h"

#include <algorithm>
#include <optional>
#include <string>

#include "base/error.h"

namespace baleen {
namespace {

/// Lines of text are short, so a thread takes some at once.
constexpr std::size_t kRecordsAtOnce = 64;

struct BadRecord {
  std::size_t record = 0;
  std::string why;
};

std::optional<Failure> count_record(const CorpusRecord& record, const RecordRules& rules,
                                    WordCounter& counter, int thread) {
  const Result<TrainingText> text = training_text_of(record, rules);
  if (!text) return Failure{text.error()};
  std::optional<Failure> failed;
  for_each_stretch(
      text.value().text,
      [&](std::string_view stretch) {
        if (!failed) failed = counter.add(stretch, thread);
      },
      [](std::string_view) {});
  return failed;
}

/// The first bad one of records [begin, end).
std::optional<BadRecord> count_records(const std::vector<CorpusRecord>& records, std::size_t begin,
                                       std::size_t end, const RecordRules& rules, WordCounter& counter,
                                       int thread) {
  for (std::size_t i = begin; i < end; ++i) {
    if (auto failed = count_record(records[i], rules, counter, thread)) return BadRecord{i, failed->message};
  }
  return std::nullopt;
}

}  // namespace

std::vector<WordCount> count_corpus_words(
    Corpus& corpus, const RecordRules& rules, const PreTokenizer& pre_tokenizer, ThreadPool& pool,
    const std::function<void(std::int64_t done, std::int64_t total)>& progress) {
  WordCounter counter(pre_tokenizer, pool.num_threads());
  std::vector<CorpusRecord> records;
  while (corpus.next_records(records, kRecordBytesAtOnce)) {
    const std::size_t num_items = (records.size() + kRecordsAtOnce - 1) / kRecordsAtOnce;
    std::vector<std::optional<BadRecord>> bad(num_items);
    pool.parallel_for(static_cast<std::int64_t>(num_items), [&](std::int64_t item, int thread) {
      const std::size_t begin = static_cast<std::size_t>(item) * kRecordsAtOnce;
      const std::size_t end = std::min(records.size(), begin + kRecordsAtOnce);
      bad[static_cast<std::size_t>(item)] = count_records(records, begin, end, rules, counter, thread);
    });
    for (const std::optional<BadRecord>& found : bad)
      if (found) fail("{}: {}", corpus.place(records[found->record]), found->why);
    if (progress) progress(corpus.bytes_read(), corpus.size());
  }
  return counter.take();
}

}  // namespace baleen
