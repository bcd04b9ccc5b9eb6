#include "app/calibrate.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "log/log.h"
#include "parallel/thread_pool.h"
#include "simulator/calibration/calibrate.h"

namespace baleen {
namespace {

struct CalibrateFlags {
  std::string device = "cpu";
  std::string output;
  std::string name = "local";
  int threads = default_num_threads();
  bool quick = false;
};

void run_calibrate(const CalibrateFlags& flags) {
  if (flags.name.empty()) fail("--name: a profile must have one");
  if (!flags.output.empty() && !flags.output.ends_with(".json"))
    fail("--output {}: profiles are found again by names that end in .json", flags.output);
  // Before the minutes that measuring takes: can the result be kept?
  std::optional<AtomicFileWriter> writer;
  if (!flags.output.empty()) writer.emplace(flags.output);
  const std::string profile = profile_text(calibrate({.device = device_from_name(flags.device),
                                                      .num_threads = flags.threads,
                                                      .quick = flags.quick,
                                                      .name = flags.name,
                                                      .date = today()}));
  if (!writer) {
    fmt::print("{}", profile);
    return;
  }
  writer->write(profile);
  writer->commit();
  log_line("{} written: `baleen simulate --device {}` uses it", flags.output, flags.output);
}

}  // namespace

void add_calibrate_command(CLI::App& app) {
  auto flags = std::make_shared<CalibrateFlags>();
  CLI::App* command = app.add_subcommand(
      "calibrate",
      "Measure this machine with the engine's own kernels: a device profile for `baleen simulate`");
  command->add_option("--device,-d", flags->device, "cpu, cuda or cuda:N")->capture_default_str();
  command->add_option("--output,-o", flags->output, "File to write, named .json; standard output without it");
  command->add_option("--name", flags->name, "Of the profile, in its own text")->capture_default_str();
  command->add_option("--threads,-t", flags->threads, "Threads of the CPU")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_flag("--quick", flags->quick,
                    "Fewer steps of smaller models: seconds, and rougher, as `--device local` does it");
  command->callback([flags] { run_calibrate(*flags); });
}

}  // namespace baleen
