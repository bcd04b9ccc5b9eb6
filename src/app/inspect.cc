#include "app/inspect.h"

#include <fmt/format.h>

#include <memory>
#include <string>

#include "app/engine_flags.h"
#include "base/error.h"
#include "model_files/inspect.h"

namespace baleen {
namespace {

struct Options {
  std::string folder = default_model_folder();
  bool json = false;
};

void run(const Options& options) {
  const CheckpointReport report = inspect_checkpoint(options.folder);
  fmt::print("{}", options.json ? report_json(report) : report_text(report));
  if (!report.mismatches.empty()) {
    fail("{}: config.json and tensors do not fit together: {} mismatches", options.folder,
         report.mismatches.size());
  }
}

}  // namespace

void add_inspect_command(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "inspect",
      "Layers, parameters, bytes and KV sizes of a checkpoint, and where config and tensors disagree");
  command->add_option("model,--model", options->folder, "Checkpoint folder")->capture_default_str();
  command->add_flag("--json", options->json, "One JSON object instead of a table");
  command->callback([options] { run(*options); });
}

}  // namespace baleen
