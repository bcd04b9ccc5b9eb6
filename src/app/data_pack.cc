#include "app/commands.h"

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "app/corpus_flags.h"
#include "app/data_inspect.h"
#include "app/engine_flags.h"
#include "app/option_ranges.h"
#include "app/options.h"
#include "base/progress.h"
#include "parallel/thread_pool.h"
#include "training_data/pack.h"

namespace baleen {
namespace {

constexpr WholeRange kShardTokensRange{1, std::int64_t{1} << 36};
constexpr RealRange kHeldOutRange{.min = 0, .max = 0.999};

struct PackFlags {
  CorpusFlags corpus;
  std::vector<std::string> held_out_files;
  PackOptions options;
  std::string tokenizer = default_model_folder();
  std::string out;
};

void run_pack(PackFlags& flags) {
  if (flags.options.held_out_share > 0 && !flags.held_out_files.empty())
    usage_error("--held-out and --held-out-file: expected one of them");
  PackOptions options = flags.options;
  options.files = paths_of(flags.corpus.files);
  options.held_out_files = paths_of(flags.held_out_files);
  options.tokenizer = flags.tokenizer;
  options.out = flags.out;
  options.format = flags.corpus.corpus_format();
  const std::filesystem::path named = flags.tokenizer;
  std::error_code ignored;
  const bool is_folder = std::filesystem::is_directory(named, ignored);
  options.rules = flags.corpus.record_rules(is_folder ? named : named.parent_path());
  std::unique_ptr<Progress> progress;
  options.progress = [&progress](std::int64_t done, std::int64_t total) {
    if (!progress) progress = std::make_unique<Progress>("packing", "bytes", total);
    progress->update(done);
  };
  const PackResult result = pack_corpus(options);
  progress.reset();
  print_data_head();
  print_data_totals(DataSplit::kTrain, result.train);
  if (result.held_out.num_documents > 0) print_data_totals(DataSplit::kHeldOut, result.held_out);
}

}  // namespace

void add_data_pack_command(Options& command) {
  const auto flags = std::make_shared<PackFlags>();
  PackOptions& options = flags->options;
  options.num_threads = default_num_threads();
  flags->corpus.add_to(command);
  command.path("--out,-o", flags->out, "Folder to write; absent or empty").required();
  command.path("--tokenizer", flags->tokenizer, "Folder with tokenizer.json, or that file");
  command.real("--held-out", options.held_out_share, kHeldOutRange,
               "Share of the documents kept for evaluation; equal documents stay on one side");
  command.texts("--held-out-file", flags->held_out_files, "File whose documents are kept for evaluation");
  command.seed("--seed", options.seed, "Of the order of documents and of the split");
  command.integer("--shard-tokens", options.shard_tokens, kShardTokensRange,
                  "A shard ends with the document that reaches so many tokens; at most 4,096 of a split");
  command.integer("--threads,-t", options.num_threads, kThreadsRange,
                  "Threads; the result does not depend on them");
  command.flag("--force", options.replace, "Replace the packed corpus in a folder that is not empty");
  command.footer(
      "A text file is one document, and so is a JSON line: its text between the tokens that begin and end a\n"
      "text, or a conversation (\"messages\") in the chat format, of which only the assistant's replies are\n"
      "targets of training.");
  command.action([flags] { run_pack(*flags); });
}

}  // namespace baleen
