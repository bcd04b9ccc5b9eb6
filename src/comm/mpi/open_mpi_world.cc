// Finds and loads the module.

#include <dlfcn.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/number.h"
#include "base/program_module.h"
#include "base/standard_streams.h"
#include "comm/mpi/mpi_world.h"

namespace baleen {
namespace {

constexpr const char* kModule = "baleen_mpi.so";

std::int64_t number_in_environment(const char* name) {
  const char* text = std::getenv(name);
  const Result<std::int64_t> number = read_whole(text == nullptr ? "" : text, {});
  return number ? number.value() : 0;
}

/// While it lives, the processes meet.
class MeetingWatch {
 public:
  MeetingWatch()
      : thread_([](const std::stop_token& met) {
          std::mutex mutex;
          std::unique_lock lock(mutex);
          std::condition_variable_any never;
          never.wait_for(lock, met, kLongestMeeting, [] { return false; });
          if (met.stop_requested()) return;
          write_standard_error(fmt::format(
              "baleen: waited {} s for the other processes that MPI started with this one, and not all came: "
              "one of them is another program or has ended; start the same program in all of them\n",
              kLongestMeeting.count()));
          std::_Exit(1);
        }) {}

 private:
  std::jthread thread_;
};

}  // namespace

bool is_mpi_process() {
  if (number_in_environment("OMPI_COMM_WORLD_SIZE") > 1) return true;
  return std::getenv("PMIX_RANK") != nullptr && number_in_environment("SLURM_NTASKS") > 1;
}

std::optional<std::int64_t> seconds_before_mpirun_kills() {
  if (number_in_environment("OMPI_COMM_WORLD_SIZE") <= 1) return std::nullopt;
  return std::max<std::int64_t>(number_in_environment("OMPI_MCA_odls_base_sigkill_timeout"), 1);
}

std::shared_ptr<MpiWorld> open_mpi_world() {
  // MPI's own plug-ins look for its symbols, so they are global.
  const ProgramModule module = load_program_module(kModule, RTLD_NOW | RTLD_GLOBAL);
  if (module.handle == nullptr) {
    fail(
        "this process is one of several that MPI started, but {} cannot be loaded ({}); it needs Open MPI: "
        "install the packages openmpi-bin and libopenmpi-dev and build again",
        module.path, module.why_not);
  }
  const auto make = reinterpret_cast<MakeMpiWorld>(::dlsym(module.handle, kMakeMpiWorld));
  if (make == nullptr)
    fail("{} belongs to another version of this program: build both together", module.path);
  const MeetingWatch watch;
  return std::shared_ptr<MpiWorld>(make());
}

}  // namespace baleen
