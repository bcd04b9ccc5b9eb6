#include "device/gpu_driver.h"

#include <dlfcn.h>

#include <array>

#include "base/error.h"

namespace baleen {
namespace {

// As cuda.h has had them since CUDA 4.
constexpr int kSuccess = 0, kNoDevice = 100;
constexpr int kCapabilityMajor = 75, kCapabilityMinor = 76;

struct DriverLibrary {
  int (*init)(unsigned flags) = nullptr;
  int (*get_count)(int* count) = nullptr;
  int (*get)(int* device, int index) = nullptr;
  int (*get_name)(char* name, int length, int device) = nullptr;
  int (*get_attribute)(int* value, int attribute, int device) = nullptr;
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

std::vector<DriverGpu> gpus_of(const DriverLibrary& driver) {
  std::vector<DriverGpu> gpus;
  int count = 0;
  driver.check(driver.get_count(&count));
  for (int index = 0; index < count; ++index) {
    int device = 0;
    std::array<char, 256> name{};
    DriverGpu gpu;
    driver.check(driver.get(&device, index));
    driver.check(driver.get_name(name.data(), static_cast<int>(name.size()) - 1, device));
    driver.check(driver.get_attribute(&gpu.capability.major, kCapabilityMajor, device));
    driver.check(driver.get_attribute(&gpu.capability.minor, kCapabilityMinor, device));
    gpu.name = name.data();
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

GpuDriver ask_driver() {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {.gpus = {}, .why_none = "no NVIDIA driver is installed here"};
  DriverLibrary driver;
  const bool complete =
      find(library, "cuInit", driver.init) && find(library, "cuDeviceGetCount", driver.get_count) &&
      find(library, "cuDeviceGet", driver.get) && find(library, "cuDeviceGetName", driver.get_name) &&
      find(library, "cuDeviceGetAttribute", driver.get_attribute) &&
      find(library, "cuGetErrorString", driver.get_error_string);
  if (!complete) return {.gpus = {}, .why_none = "libcuda.so.1 is no NVIDIA driver; install it again"};
  constexpr std::string_view kNoGpu = "no GPU was found";
  const int status = driver.init(0);
  if (status == kNoDevice) return {.gpus = {}, .why_none = std::string(kNoGpu)};
  try {
    driver.check(status);
    GpuDriver found{.gpus = gpus_of(driver), .why_none = {}};
    if (found.gpus.empty()) found.why_none = kNoGpu;
    return found;
  } catch (const Error& error) {
    return {.gpus = {}, .why_none = error.what()};
  }
}

}  // namespace

const GpuDriver& gpu_driver() {
  static const GpuDriver driver = ask_driver();
  return driver;
}

}  // namespace baleen
