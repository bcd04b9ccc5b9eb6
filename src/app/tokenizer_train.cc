#include "app/commands.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "app/corpus_flags.h"
#include "app/option_ranges.h"
#include "app/options.h"
#include "base/file.h"
#include "base/number.h"
#include "base/progress.h"
#include "log/log.h"
#include "parallel/thread_pool.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer_training/pair_merges.h"
#include "tokenizer_training/trained_tokenizer.h"
#include "training_data/corpus_words.h"

namespace baleen {
namespace {

struct TokenizerTrainFlags {
  CorpusFlags corpus;
  std::string out;
  std::int64_t vocab_size = 0;
  std::int64_t min_count = 2;
  SpecialTokenSet special_tokens = SpecialTokenSet::kChat;
  int num_threads = default_num_threads();
};

std::vector<WordCount> count_words(const TokenizerTrainFlags& flags) {
  Corpus corpus(paths_of(flags.corpus.files), flags.corpus.corpus_format(), TextRecords::kLines);
  const PreTokenizer pre_tokenizer(v4_split_rules(), "DeepSeek-V4's patterns");
  ThreadPool pool(flags.num_threads);
  Progress progress("counting words", "bytes", corpus.size());
  return count_corpus_words(corpus, flags.corpus.record_rules(flags.out), pre_tokenizer, pool,
                            [&progress](std::int64_t done, std::int64_t) { progress.update(done); });
}

TrainedMerges merge_pairs(const TokenizerTrainFlags& flags, const std::vector<WordCount>& words,
                          std::int64_t num_tokens) {
  Progress progress("merging pairs", "tokens", num_tokens);
  MergeTrainingOptions options{.num_tokens = num_tokens, .min_count = flags.min_count};
  options.progress = [&progress](std::int64_t done) { progress.update(done); };
  return train_merges(words, options);
}

void write_file(const std::filesystem::path& path, const std::string& text) {
  AtomicFileWriter writer(path);
  writer.write(text);
  writer.commit();
}

void run_train(const TokenizerTrainFlags& flags) {
  const SpecialTokenSet set = flags.special_tokens;
  const auto num_special = static_cast<std::int64_t>(v4_special_tokens(set).size());
  const std::int64_t least = num_special + 256;
  if (flags.vocab_size < least)
    usage_error("--vocab-size: {} special tokens and 256 bytes need {}, found {}", num_special, least,
                flags.vocab_size);
  const std::filesystem::path folder = flags.out;
  if (std::filesystem::exists(folder / "tokenizer.json"))
    fail("{}: there is a tokenizer.json already; name another folder", flags.out);

  const std::vector<WordCount> words = count_words(flags);
  const TrainedMerges merges = merge_pairs(flags, words, flags.vocab_size - num_special);
  const std::string json = v4_tokenizer_json(trained_tokenizer(merges, set));
  const Tokenizer tokenizer = Tokenizer::parse(json, "tokenizer.json");  // what is written loads
  std::filesystem::create_directories(folder);
  write_file(folder / "tokenizer_config.json", v4_tokenizer_config_json());
  write_file(folder / "tokenizer.json", json);
  if (tokenizer.vocab_size() < flags.vocab_size) {
    log_line("{} tokens instead of {}: no other pair occurs {} times",
             grouped(std::int64_t{tokenizer.vocab_size()}), grouped(flags.vocab_size), flags.min_count);
  }
  fmt::print("{}: {} tokens, {} merges, from {} distinct words\n", (folder / "tokenizer.json").string(),
             grouped(std::int64_t{tokenizer.vocab_size()}),
             grouped(static_cast<std::int64_t>(merges.rules.size())),
             grouped(static_cast<std::int64_t>(words.size())));
}

}  // namespace

void add_tokenizer_train_command(Options& command) {
  const auto flags = std::make_shared<TokenizerTrainFlags>();
  flags->corpus.add_to(command);
  command.path("--out,-o", flags->out, "Folder to write tokenizer.json and tokenizer_config.json to")
      .required();
  command
      .integer_without_default("--vocab-size", flags->vocab_size, {1, 1 << 22},
                               "Tokens, special ones included")
      .required();
  command.integer("--min-count", flags->min_count, {1, 1 << 30}, "Rarer pairs are not merged");
  command.choice(
      "--special-tokens", flags->special_tokens,
      {{"chat", SpecialTokenSet::kChat}, {"all", SpecialTokenSet::kAll}, {"v4.1", SpecialTokenSet::kV41}},
      "chat: those of the chat format and padding (15); all: every named one of V4's releases (66); "
      "v4.1: those of V4.1's chat format (17)");
  command.integer("--threads,-t", flags->num_threads, kThreadsRange,
                  "Threads; the result does not depend on them");
  command.footer(
      "The pre-tokenizer is DeepSeek-V4's. The merges are those that the trainer of Hugging Face's "
      "tokenizers\n"
      "library finds on the same texts: a JSON line is one text, of a text file every line is one.");
  command.action([flags] { run_train(*flags); });
}

}  // namespace baleen
