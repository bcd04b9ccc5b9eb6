#include "device/gpu_driver.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <system_error>

#include "base/error.h"
#include "base/number.h"
#include "base/quoted_text.h"
#include "device/compile_cache.h"

namespace baleen {
namespace {

// As cuda.h has had them since CUDA 4, or since they are there.
constexpr int kSuccess = 0, kOutOfMemory = 2, kStubLibrary = 34, kDeviceUnavailable = 46, kNoDevice = 100;
constexpr int kOperatingSystem = 304, kSystemNotReady = 802, kDriverMismatch = 803, kCompatNotSupported = 804;
constexpr int kUnknownError = 999;
constexpr int kMultiprocessors = 16, kComputeMode = 20, kL2Bytes = 38;
constexpr int kCapabilityMajor = 75, kCapabilityMinor = 76, kMaxSharedBytes = 97;
constexpr int kProhibited = 2;  // a compute mode

constexpr std::string_view kContainer =
    "in a container, docker run --gpus all (with the NVIDIA container toolkit on the host) or podman run "
    "--device nvidia.com/gpu=all";

struct DriverLibrary {
  int (*init)(unsigned flags) = nullptr;
  int (*get_version)(int* version) = nullptr;
  int (*get_count)(int* count) = nullptr;
  int (*get)(int* device, int index) = nullptr;
  int (*get_name)(char* name, int length, int device) = nullptr;
  int (*get_attribute)(int* value, int attribute, int device) = nullptr;
  int (*get_memory)(std::size_t* bytes, int device) = nullptr;
  int (*get_pci_address)(char* address, int length, int device) = nullptr;
  int (*get_error_string)(int error, const char** text) = nullptr;

  void check(int status) const {
    if (status == kSuccess) return;
    const char* text = nullptr;
    static_cast<void>(get_error_string(status, &text));
    fail("the NVIDIA driver says '{}' (error {})", text == nullptr ? "nothing more" : text, status);
  }
};

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

bool find_all(void* library, DriverLibrary& driver) {
  return find(library, "cuInit", driver.init) && find(library, "cuDriverGetVersion", driver.get_version) &&
         find(library, "cuDeviceGetCount", driver.get_count) && find(library, "cuDeviceGet", driver.get) &&
         find(library, "cuDeviceGetName", driver.get_name) &&
         find(library, "cuDeviceGetAttribute", driver.get_attribute) &&
         find(library, "cuDeviceTotalMem_v2", driver.get_memory) &&
         find(library, "cuDeviceGetPCIBusId", driver.get_pci_address) &&
         find(library, "cuGetErrorString", driver.get_error_string);
}

std::vector<DriverGpu> gpus_of(const DriverLibrary& driver) {
  std::vector<DriverGpu> gpus;
  int count = 0;
  driver.check(driver.get_count(&count));
  for (int index = 0; index < count; ++index) {
    int device = 0;
    std::array<char, 256> name{}, address{};
    DriverGpu gpu;
    driver.check(driver.get(&device, index));
    driver.check(driver.get_name(name.data(), static_cast<int>(name.size()) - 1, device));
    const auto attribute = [&](int number) {
      int value = 0;
      driver.check(driver.get_attribute(&value, number, device));
      return value;
    };
    gpu.capability = {attribute(kCapabilityMajor), attribute(kCapabilityMinor)};
    gpu.num_units = attribute(kMultiprocessors);
    gpu.shared_bytes_per_block = attribute(kMaxSharedBytes);
    gpu.l2_bytes = attribute(kL2Bytes);
    gpu.is_prohibited = attribute(kComputeMode) == kProhibited;
    std::size_t bytes = 0;
    driver.check(driver.get_memory(&bytes, device));
    gpu.memory_bytes = static_cast<std::int64_t>(bytes);
    driver.check(driver.get_pci_address(address.data(), static_cast<int>(address.size()) - 1, device));
    gpu.pci_address = address.data();
    gpu.name = name.data();
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

/// What the system shows of a driver, whatever its library says.
class DriverTraces {
 public:
  explicit DriverTraces(std::filesystem::path root) : root_(std::move(root)) {}

  [[nodiscard]] bool has(std::string_view path) const {
    std::error_code error;
    return std::filesystem::exists(root_ / path, error);
  }
  /// Under Windows.
  [[nodiscard]] bool is_wsl() const { return has("dev/dxg"); }
  [[nodiscard]] bool any() const {
    return is_wsl() || has("dev/nvidiactl") || has("dev/nvidia0") || has("proc/driver/nvidia/version");
  }
  [[nodiscard]] std::filesystem::path wsl_library() const { return root_ / "usr/lib/wsl/lib/libcuda.so.1"; }

  /// "550.54.14", the first word of /proc/driver/nvidia/version that is digits and dots.
  [[nodiscard]] std::string release() const {
    std::ifstream file(root_ / "proc/driver/nvidia/version");
    for (std::string word; file >> word;) {
      const bool numbers =
          std::ranges::all_of(word, [](unsigned char c) { return std::isdigit(c) != 0 || c == '.'; });
      if (numbers && word.find('.') != std::string::npos) return word;
    }
    return "";
  }
  [[nodiscard]] std::int64_t num_cards() const {
    std::error_code error;
    const std::filesystem::directory_iterator folder(root_ / "proc/driver/nvidia/gpus", error);
    return error ? 0 : std::distance(begin(folder), end(folder));
  }
  /// The first of the files that every program opens, and may not; empty: there is none.
  [[nodiscard]] std::string forbidden() const {
    for (const std::string_view path : {"dev/nvidiactl", "dev/nvidia-uvm", "dev/nvidia0", "dev/dxg"}) {
      if (has(path) && ::access((root_ / path).c_str(), R_OK | W_OK) != 0) return "/" + std::string(path);
    }
    return "";
  }

 private:
  std::filesystem::path root_;
};

std::string why_no_library(const DriverTraces& traces) {
  if (traces.is_wsl()) {
    return "this is Windows' WSL, and libcuda.so.1 is neither where the loader looks nor in "
           "/usr/lib/wsl/lib; install NVIDIA's driver in Windows, then run `wsl --update`";
  }
  if (!traces.any()) return "no NVIDIA driver is installed here";
  return fmt::format(
      "the NVIDIA driver{} runs, but its libcuda.so.1 is not here; {}; else install the driver's library "
      "(Debian: libcuda1)",
      traces.release().empty() ? "" : " " + traces.release(), kContainer);
}

/// Where the driver starts and shows no GPU, or says that it cannot reach the system.
std::string why_no_gpu(const DriverTraces& traces, std::string_view says) {
  if (const std::string path = traces.forbidden(); !path.empty()) {
    return fmt::format("{}: this user may not open {}; {}, or add the user to the group that owns it", says,
                       path, kContainer);
  }
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES"); visible != nullptr)
    return fmt::format("{}: CUDA_VISIBLE_DEVICES is \"{}\"; unset it", says, shortened_text(visible));
  const std::int64_t cards = traces.num_cards();
  if (cards > 0 && !traces.has("dev/nvidiactl"))
    return fmt::format("{}: the driver has {}, but /dev/nvidiactl is not here; {}", says, cards, kContainer);
  if (cards > 0 && !traces.has("dev/nvidia-uvm"))
    return fmt::format("{}: /dev/nvidia-uvm is not here; run `sudo nvidia-modprobe -u -c=0`", says);
  if (cards > 0) {
    return fmt::format(
        "{}: the driver has {}, and shows none to programs; a card in MIG mode needs an instance (nvidia-smi "
        "-L lists them, `sudo nvidia-smi mig -cgi 0 -C` makes one, `sudo nvidia-smi -mig 0` ends the mode)",
        says, cards);
  }
  return std::string(says);
}

std::string why_not_initialised(const DriverLibrary& driver, int status, const DriverTraces& traces) {
  const std::string release = traces.release();
  switch (status) {
    case kNoDevice:
      return why_no_gpu(traces, "no GPU was found");
    case kStubLibrary:
      return "libcuda.so.1 is the stub that programs are linked with, not the driver; take the toolkit's "
             "folder stubs out of LD_LIBRARY_PATH";
    case kSystemNotReady:
      return "the NVIDIA driver is not ready: GPUs with NVSwitch need the fabric manager, `sudo systemctl "
             "start nvidia-fabricmanager`";
    case kDriverMismatch:
      return fmt::format(
          "the NVIDIA driver's library and the driver that runs{} are of different releases; reboot, or in "
          "a container take the library from the host ({})",
          release.empty() ? "" : ", " + release + ",", kContainer);
    case kCompatNotSupported:
      return "the libcuda.so.1 that was found is CUDA's compatibility package, which runs on data-centre "
             "GPUs alone; take its folder compat out of LD_LIBRARY_PATH, or update the driver";
    default:
      break;
  }
  try {
    driver.check(status);
  } catch (const Error& error) {
    if (status == kOperatingSystem || status == kUnknownError) return why_no_gpu(traces, error.what());
    return error.what();
  }
  return "";
}

}  // namespace

DeviceTraits traits_of(const GpuArchitecture& row, const DriverGpu& gpu) {
  DeviceTraits traits = row.traits;
  traits.num_units = static_cast<int>(gpu.num_units);
  traits.shared_bytes_per_block = std::max(traits.shared_bytes_per_block, gpu.shared_bytes_per_block);
  traits.l2_bytes = gpu.l2_bytes;
  return traits;
}

GpuDriver ask_driver(const DriverPlaces& places) {
  const DriverTraces traces(places.root);
  GpuDriver found{.gpus = {}, .release = traces.release(), .why_none = {}, .seems_to_be_here = traces.any()};
  void* library = ::dlopen(places.library.c_str(), RTLD_NOW | RTLD_LOCAL);
  // Later calls of the loader, by the module's runtime, get the library that is loaded by its name.
  if (library == nullptr && traces.is_wsl())
    library = ::dlopen(traces.wsl_library().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    found.why_none = why_no_library(traces);
    return found;
  }
  found.seems_to_be_here = true;
  DriverLibrary driver;
  if (!find_all(library, driver)) {
    found.why_none = "libcuda.so.1 is no NVIDIA driver, or one before CUDA 11; install the driver again";
    return found;
  }
  static_cast<void>(driver.get_version(&found.cuda_version));
  const int status = driver.init(0);
  found.why_none = why_not_initialised(driver, status, traces);
  if (!found.why_none.empty()) return found;
  try {
    found.gpus = gpus_of(driver);
    if (found.gpus.empty()) found.why_none = why_no_gpu(traces, "no GPU was found");
  } catch (const Error& error) {
    found.why_none = error.what();
  }
  return found;
}

const GpuDriver& gpu_driver() {
  static const GpuDriver driver = [] {
    enlarge_compile_cache();
    return ask_driver({});
  }();
  return driver;
}

std::string cuda_version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string why_too_old(const GpuDriver& driver, std::string_view module, std::string_view toolkit,
                        bool compiles) {
  const std::size_t dot = std::min(toolkit.find('.'), toolkit.size());
  const auto number = [](std::string_view text) {
    const Result<std::int64_t> read = read_whole(text, {0, 1000});
    return read.ok() ? static_cast<int>(read.value()) : 0;
  };
  const int major = number(toolkit.substr(0, dot));
  const int minor = dot < toolkit.size() ? number(toolkit.substr(dot + 1)) : 0;
  const int needed = 1000 * major + (compiles ? 10 * minor : 0);
  if (driver.cuda_version >= needed) return "";
  // The first releases for a major version of CUDA (source: CUDA's release notes).
  std::string release;
  if (!compiles || minor == 0) {
    if (major == 12) release = ", release 525.60 or later";
    if (major == 13) release = ", release 580.65 or later";
  }
  return fmt::format(
      "the NVIDIA driver{} is for CUDA {}; {} was built with CUDA {} and needs a driver for CUDA {}{}: "
      "update the driver (of WSL: in Windows), or build the module with an older toolkit",
      driver.release.empty() ? "" : " " + driver.release, cuda_version_text(driver.cuda_version), module,
      toolkit, cuda_version_text(needed), release);
}

std::string why_not_started(int status, std::string_view gpu) {
  if (status == kDeviceUnavailable) {
    return fmt::format(
        "{} is in use by another process and takes one at a time (exclusive-process mode), or is busy; "
        "nvidia-smi lists who has it, `sudo nvidia-smi -c DEFAULT` lets several have it",
        gpu);
  }
  if (status == kOutOfMemory) {
    return fmt::format("{} has no memory left to start with: other processes have it; nvidia-smi lists them",
                       gpu);
  }
  return "";
}

std::string taken_memory_text(std::int64_t total_bytes, std::int64_t free_bytes_at_start) {
  constexpr std::int64_t kContextBytes = std::int64_t{3} << 29;  // the driver's own, and ours
  const std::int64_t taken = total_bytes - free_bytes_at_start;
  if (taken <= kContextBytes) return "";
  return fmt::format("of its {:.1f} GB, {:.1f} were taken before this began; nvidia-smi lists by whom",
                     1e-9 * static_cast<double>(total_bytes), 1e-9 * static_cast<double>(taken));
}

}  // namespace baleen
