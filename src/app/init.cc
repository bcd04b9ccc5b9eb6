#include "app/init.h"

#include <fmt/format.h>

#include <memory>
#include <string>

#include "app/terminal.h"
#include "model/presets.h"
#include "model_files/init.h"
#include "model_files/weight_stream.h"

namespace baleen {
namespace {

struct Options {
  std::string folder;
  std::string preset = "tiny-flash";
  std::optional<std::int64_t> num_layers;
  std::optional<std::int64_t> num_experts;
  std::uint64_t shard_bytes = 5'000'000'000;
  InitOptions init;
  std::string tokenizer;
  int num_threads = default_num_threads();
};

std::string preset_help() {
  std::string text = "Geometry:";
  for (const Preset& preset : presets()) text += fmt::format("\n  {}: {}", preset.name, preset.description);
  return text;
}

void run(Options& options) {
  ModelConfig config = preset_config(options.preset);
  if (options.num_layers) config = with_layers(std::move(config), *options.num_layers);
  if (options.num_experts) config = with_experts(std::move(config), *options.num_experts);
  options.init.max_shard_bytes = static_cast<std::int64_t>(options.shard_bytes);
  options.init.tokenizer = options.tokenizer;
  ThreadPool pool(options.num_threads);
  InterruptFlag interrupt({SIGINT, SIGTERM, SIGHUP});
  options.init.cancelled = [&] { return interrupt.raised(); };
  std::int64_t bytes = 0;
  try {
    bytes = init_checkpoint(options.folder, config, options.init, pool);
  } catch (const Cancelled& cancelled) {
    fmt::print(stderr, "baleen: {}\n", cancelled.what());
    interrupt.end_process();
  }
  fmt::print("{}: {}, {} layers, {} experts, seed {}, {:.3f} GB of random weights\n", options.folder,
             options.preset, config.num_hidden_layers, config.n_routed_experts, options.init.seed,
             static_cast<double>(bytes) / 1e9);
  if (options.tokenizer.empty()) fmt::print("no tokenizer was written; --tokenizer DIR copies one\n");
}

}  // namespace

void add_init_command(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("init", "Write a random checkpoint in the released layout");
  command->add_option("folder", options->folder, "Folder to write; absent or empty")->required();
  command->add_option("--preset", options->preset, preset_help())->capture_default_str();
  command->add_option("--seed", options->init.seed, "Same seed, same bytes")->capture_default_str();
  command->add_option("--layers", options->num_layers, "Keep the first so many layers");
  command->add_option("--experts", options->num_experts, "Keep so many routed experts a layer");
  command->add_option("--tokenizer", options->tokenizer, "Folder to copy tokenizer.json from");
  command->add_option("--shard-size", options->shard_bytes, "Largest file, e.g. 500MB or 5GB")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 60))
      ->option_text("SIZE (default 5GB)");
  command->add_option("--threads", options->num_threads, "Threads")->check(CLI::Range(1, 1024));
  command->add_flag("--force", options->init.force, "Replace the checkpoint in a folder that is not empty");
  command->callback([options] { run(*options); });
}

}  // namespace baleen
