/// The words of a corpus, counted for the training of a tokenizer.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "parallel/thread_pool.h"
#include "tokenizer_training/word_counts.h"
#include "training_data/corpus.h"
#include "training_data/training_text.h"

namespace baleen {

/// Of a whole corpus. Control tokens that the chat format puts between texts are not counted. `progress` may
/// be empty. Throws `Error` that names file and line of a bad record.
[[nodiscard]] std::vector<WordCount> count_corpus_words(
    Corpus& corpus, const RecordRules& rules, const PreTokenizer& pre_tokenizer, ThreadPool& pool,
    const std::function<void(std::int64_t done, std::int64_t total)>& progress);

}  // namespace baleen
