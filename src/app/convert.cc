#include "app/convert.h"

#include <fmt/format.h>

#include <memory>
#include <string>

#include "app/terminal.h"
#include "model_files/convert.h"
#include "model_files/weight_stream.h"

namespace baleen {
namespace {

struct Options {
  std::string in;
  std::string out;
  std::optional<std::string> experts;
  std::optional<std::string> dense;
  std::uint64_t shard_bytes = 5'000'000'000;
  bool force = false;
  int num_threads = default_num_threads();
};

std::optional<WeightFormat> format_named(const std::optional<std::string>& name) {
  if (!name) return std::nullopt;
  if (*name == "fp4") return WeightFormat::kFp4;
  return *name == "fp8" ? WeightFormat::kFp8 : WeightFormat::kBF16;
}

void run(const Options& options) {
  ThreadPool pool(options.num_threads);
  InterruptFlag interrupt({SIGINT, SIGTERM, SIGHUP});
  const ConvertOptions convert{.experts = format_named(options.experts),
                               .dense = format_named(options.dense),
                               .max_shard_bytes = static_cast<std::int64_t>(options.shard_bytes),
                               .force = options.force,
                               .cancelled = [&] { return interrupt.raised(); }};
  try {
    const ConvertReport report = convert_checkpoint(options.in, options.out, convert, pool);
    fmt::print("{}\n{}", options.out, report_text(report));
  } catch (const Cancelled& cancelled) {
    fmt::print(stderr, "baleen: {}\n", cancelled.what());
    interrupt.end_process();
  }
}

}  // namespace

void add_convert_command(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("convert", "Write a checkpoint anew: other shards, other number formats, verified");
  command->add_option("in", options->in, "Checkpoint folder to read")->required();
  command->add_option("out", options->out, "Folder to write; absent or empty")->required();
  command->add_option("--experts", options->experts, "Format of the routed experts: fp4, fp8 or bf16")
      ->check(CLI::IsMember({"fp4", "fp8", "bf16"}));
  command->add_option("--dense", options->dense, "Format of all other matrices: fp8 or bf16")
      ->check(CLI::IsMember({"fp8", "bf16"}));
  command->add_option("--shard-size", options->shard_bytes, "Largest file, e.g. 500MB or 5GB")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 60))
      ->option_text("SIZE (default 5GB)");
  command->add_option("--threads", options->num_threads, "Threads")->check(CLI::Range(1, 1024));
  command->add_flag("--force", options->force, "Replace the checkpoint in a folder that is not empty");
  command->callback([options] { run(*options); });
}

}  // namespace baleen
