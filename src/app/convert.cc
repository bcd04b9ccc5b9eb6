#include "app/commands.h"

#include <fmt/format.h>

#include <memory>
#include <string>

#include "app/option_names.h"
#include "app/option_ranges.h"
#include "app/options.h"
#include "base/interrupt_flag.h"
#include "log/log.h"
#include "model_files/convert.h"
#include "model_files/weight_stream.h"

namespace baleen {
namespace {

struct ConvertFlags {
  std::string in;
  std::string out;
  std::optional<std::string> experts;
  std::optional<std::string> dense;
  bool no_draft_head = false, no_vision = false;
  std::int64_t shard_bytes = 5'000'000'000;
  bool force = false;
  int num_threads = default_num_threads();
};

std::optional<WeightFormat> format_named(const std::optional<std::string>& name) {
  if (!name) return std::nullopt;
  if (*name == "fp4") return WeightFormat::kFp4;
  if (*name == "nvfp4") return WeightFormat::kNvfp4;
  return *name == "fp8" ? WeightFormat::kFp8 : WeightFormat::kBF16;
}

void run(const ConvertFlags& flags) {
  ThreadPool pool(flags.num_threads);
  InterruptFlag interrupt({SIGINT, SIGTERM, SIGHUP});
  const ConvertOptions convert{.experts = format_named(flags.experts),
                               .dense = format_named(flags.dense),
                               .has_draft_head = !flags.no_draft_head,
                               .has_vision = !flags.no_vision,
                               .max_shard_bytes = flags.shard_bytes,
                               .force = flags.force,
                               .cancelled = [&] { return interrupt.raised(); }};
  try {
    const ConvertReport report = convert_checkpoint(flags.in, flags.out, convert, pool);
    fmt::print("{}\n{}", flags.out, in_options(report_text(report)));
  } catch (const Cancelled& cancelled) {
    log_line("baleen: {}", cancelled.what());
    interrupt.end_process();
  }
}

}  // namespace

void add_convert_command(Options& command) {
  const auto flags = std::make_shared<ConvertFlags>();
  command.path("in", flags->in, "Checkpoint folder or GGUF file to read").required();
  command.path("out", flags->out, "Folder to write; absent or empty").required();
  command.choice("--experts", flags->experts, {"fp4", "nvfp4", "fp8", "bf16"},
                 "Format of the routed experts");
  command.choice("--dense", flags->dense, {"fp8", "bf16"}, "Format of all other matrices");
  command.flag("--no-draft-head", flags->no_draft_head, "Leave the draft head out");
  command.flag("--no-vision", flags->no_vision,
               "Leave the vision tower out, which is copied otherwise and read by no command");
  command.bytes("--shard-size", flags->shard_bytes, kShardBytesRange, "Largest file");
  command.integer("--threads", flags->num_threads, kThreadsRange, "Threads");
  command.flag("--force", flags->force, "Replace the checkpoint in a folder that is not empty");
  command.action([flags] { run(*flags); });
}

}  // namespace baleen
