#include "app/commands.h"

#include <fmt/format.h>

#include <memory>
#include <string>

#include "app/engine_flags.h"
#include "app/option_names.h"
#include "app/options.h"
#include "base/error.h"
#include "model_files/inspect.h"

namespace baleen {
namespace {

struct InspectFlags {
  std::string folder = default_model_folder();
  bool json = false;
  bool tensors = false;
};

void run(const InspectFlags& flags) {
  const CheckpointReport report = inspect_checkpoint(flags.folder);
  if (flags.tensors) fmt::print("{}", tensors_text(report));
  fmt::print("{}", flags.json ? report_json(report) : in_options(report_text(report)));
  if (!report.kind.why_not.empty()) fail("{}: {}", flags.folder, report.kind.why_not);
  if (!report.why_not_described.empty()) fail("{}", report.why_not_described);
  if (!report.mismatches.empty()) {
    fail("{}: config.json and tensors do not fit together: {} mismatches", flags.folder,
         report.mismatches.size());
  }
}

}  // namespace

void add_inspect_command(Options& command) {
  const auto flags = std::make_shared<InspectFlags>();
  command.path("model,--model,-m", flags->folder, "Checkpoint folder or GGUF file");
  const Option json = command.flag("--json", flags->json, "One JSON object instead of a table");
  command
      .flag("--tensors", flags->tensors, "Before that every tensor with its type and the part that it is of")
      .excludes(json);
  command.action([flags] { run(*flags); });
}

}  // namespace baleen
