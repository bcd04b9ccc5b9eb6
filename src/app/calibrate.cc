#include "app/commands.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>

#include "app/option_ranges.h"
#include "app/options.h"
#include "base/error.h"
#include "base/file.h"
#include "log/log.h"
#include "parallel/thread_pool.h"
#include "simulator/calibration/calibrate.h"
#include "trainer/estimate/training_shares.h"

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
                                                      .date = today(),
                                                      .measure_further = measure_all_training_shares}));
  if (!writer) {
    fmt::print("{}", profile);
    return;
  }
  writer->write(profile);
  writer->commit();
  log_line("{} written: `baleen simulate --device {}` uses it", flags.output, flags.output);
}

}  // namespace

void add_calibrate_command(Options& command) {
  auto flags = std::make_shared<CalibrateFlags>();
  command.text("--device,-d", flags->device, "cpu, cuda or cuda:N");
  command.path("--output,-o", flags->output, "File to write, named .json; standard output without it");
  command.text("--name", flags->name, "Of the profile, in its own text");
  command.integer("--threads,-t", flags->threads, kThreadsRange, "Threads of the CPU");
  command.flag("--quick", flags->quick,
               "Fewer steps of smaller models: seconds, and rougher, as `--device local` does it");
  command.action([flags] { run_calibrate(*flags); });
}

}  // namespace baleen
