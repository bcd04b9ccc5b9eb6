// Finds and loads the module.

#include <dlfcn.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/number.h"
#include "base/standard_streams.h"
#include "comm/mpi/mpi_world.h"

namespace baleen {
namespace {

constexpr const char* kModule = "baleen_mpi.so";

/// Beside the program where it is built, and in lib/ where it is installed.
std::filesystem::path module_path() {
  const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const std::filesystem::path beside = folder / kModule;
  return std::filesystem::exists(beside) ? beside : folder.parent_path() / "lib" / "baleen" / kModule;
}

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
  const std::filesystem::path path = module_path();
  // MPI's own plug-ins look for its symbols, so they are global; it stays in use, so it is never unloaded.
  void* module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
  if (module == nullptr) {
    const char* why = ::dlerror();
    fail(
        "this process is one of several that MPI started, but {} cannot be loaded ({}); it needs Open MPI: "
        "install the packages openmpi-bin and libopenmpi-dev and build again",
        path.string(), why == nullptr ? "no reason given" : why);
  }
  const auto make = reinterpret_cast<MakeMpiWorld>(::dlsym(module, kMakeMpiWorld));
  if (make == nullptr)
    fail("{} belongs to another version of this program: build both together", path.string());
  const MeetingWatch watch;
  return std::shared_ptr<MpiWorld>(make());
}

}  // namespace baleen
