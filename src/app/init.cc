#include "app/commands.h"

#include <fmt/format.h>

#include <memory>
#include <string>

#include "app/option_ranges.h"
#include "app/options.h"
#include "base/interrupt_flag.h"
#include "log/log.h"
#include "model/presets.h"
#include "model_files/init.h"
#include "model_files/weight_stream.h"

namespace baleen {
namespace {

struct InitFlags {
  std::string folder;
  std::string preset = "tiny-flash";
  std::optional<std::int64_t> num_layers;
  std::optional<std::int64_t> num_experts;
  std::int64_t shard_bytes = 5'000'000'000;
  InitOptions init;
  std::string tokenizer;
  int num_threads = default_num_threads();
};

std::string preset_help() {
  std::string text = "Geometry:";
  for (const Preset& preset : presets()) text += fmt::format("\n  {}: {}", preset.name, preset.description);
  return text;
}

void run(InitFlags& flags) {
  ModelConfig config = preset_config(flags.preset);
  if (flags.num_layers) config = with_layers(std::move(config), *flags.num_layers);
  if (flags.num_experts) config = with_experts(std::move(config), *flags.num_experts);
  flags.init.max_shard_bytes = flags.shard_bytes;
  flags.init.tokenizer = flags.tokenizer;
  ThreadPool pool(flags.num_threads);
  InterruptFlag interrupt({SIGINT, SIGTERM, SIGHUP});
  flags.init.cancelled = [&] { return interrupt.raised(); };
  std::int64_t bytes = 0;
  try {
    bytes = init_checkpoint(flags.folder, config, flags.init, pool);
  } catch (const Cancelled& cancelled) {
    log_line("baleen: {}", cancelled.what());
    interrupt.end_process();
  }
  fmt::print("{}: {}, {} layers, {} experts, seed {}, {:.3f} GB of random weights\n", flags.folder,
             flags.preset, config.num_hidden_layers, config.n_routed_experts, flags.init.seed,
             static_cast<double>(bytes) / 1e9);
  if (flags.tokenizer.empty()) fmt::print("no tokenizer was written; --tokenizer DIR copies one\n");
}

}  // namespace

void add_init_command(Options& command) {
  const auto flags = std::make_shared<InitFlags>();
  command.path("folder", flags->folder, "Folder to write; absent or empty").required();
  command.text("--preset", flags->preset, preset_help());
  command.seed("--seed", flags->init.seed, "Same seed, same bytes");
  command.integer("--layers", flags->num_layers, kLayersRange, "Keep the first so many layers");
  command.integer("--experts", flags->num_experts, kExpertsRange, "Keep so many routed experts a layer");
  command.path("--tokenizer", flags->tokenizer, "Folder to copy tokenizer.json from");
  command.bytes("--shard-size", flags->shard_bytes, kShardBytesRange, "Largest file");
  command.integer("--threads", flags->num_threads, kThreadsRange, "Threads");
  command.flag("--force", flags->init.force, "Replace the checkpoint in a folder that is not empty");
  command.action([flags] { run(*flags); });
}

}  // namespace baleen
