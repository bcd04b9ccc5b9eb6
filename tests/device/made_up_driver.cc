// A libcuda.so.1 with one GPU, of which it says what BALEEN_MADE_UP_GPU says: its compute capability, "8.6",
// and behind it what is not as usual, "8.6 cuda=12040 units=82". The program finds the driver where
// LD_LIBRARY_PATH leads to it.
#include <cstdlib>
#include <cstring>

#define BALEEN_DRIVER extern "C" __attribute__((visibility("default"))) int

namespace {

constexpr int kSuccess = 0;
constexpr int kMultiprocessors = 16, kComputeMode = 20, kL2Bytes = 38;
constexpr int kCapabilityMajor = 75, kCapabilityMinor = 76, kMaxSharedBytes = 97;

const char* says() { return std::getenv("BALEEN_MADE_UP_GPU"); }

int figure(const char* name, int usual) {
  const char* found = std::strstr(says(), name);
  return found == nullptr ? usual : std::atoi(found + std::strlen(name));
}

}  // namespace

BALEEN_DRIVER cuInit(unsigned /*flags*/) { return figure("status=", kSuccess); }
BALEEN_DRIVER cuDriverGetVersion(int* version) {
  *version = figure("cuda=", 13000);
  return kSuccess;
}
BALEEN_DRIVER cuDeviceGetCount(int* count) {
  *count = figure("count=", 1);
  return kSuccess;
}
BALEEN_DRIVER cuDeviceGet(int* device, int index) {
  *device = index;
  return kSuccess;
}
BALEEN_DRIVER cuDeviceGetName(char* name, int length, int /*device*/) {
  std::strncpy(name, "NVIDIA Made-up 1000", static_cast<std::size_t>(length));
  return kSuccess;
}
BALEEN_DRIVER cuDeviceGetAttribute(int* value, int attribute, int /*device*/) {
  switch (attribute) {
    case kMultiprocessors:
      *value = figure("units=", 132);
      break;
    case kComputeMode:
      *value = figure("mode=", 0);
      break;
    case kL2Bytes:
      *value = 50 << 20;
      break;
    case kCapabilityMajor:
      *value = says()[0] - '0';
      break;
    case kCapabilityMinor:
      *value = says()[2] - '0';
      break;
    case kMaxSharedBytes:
      *value = figure("shared=", 227) << 10;
      break;
    default:
      *value = 0;
  }
  return kSuccess;
}
BALEEN_DRIVER cuDeviceTotalMem_v2(std::size_t* bytes, int /*device*/) {
  *bytes = std::size_t{25386352640};
  return kSuccess;
}
BALEEN_DRIVER cuDeviceGetPCIBusId(char* address, int length, int /*device*/) {
  std::strncpy(address, "0000:01:00.0", static_cast<std::size_t>(length));
  return kSuccess;
}
BALEEN_DRIVER cuGetErrorString(int /*error*/, const char** text) {
  *text = "unknown error";
  return kSuccess;
}

// Takes whatever begins as a fat binary does.
BALEEN_DRIVER cuDevicePrimaryCtxRetain(void** context, int /*device*/) {
  static int made_up = 0;
  *context = &made_up;
  return kSuccess;
}
BALEEN_DRIVER cuCtxSetCurrent(void* /*context*/) { return kSuccess; }
BALEEN_DRIVER cuLibraryLoadData(void** library, const void* code, void* /*compiler_options*/,
                                void** /*compiler_values*/, unsigned /*num_compiler_options*/,
                                void* /*options*/, void** /*values*/, unsigned /*num_options*/) {
  constexpr unsigned char kMagic[] = {0x50, 0xED, 0x55, 0xBA};
  if (std::memcmp(code, kMagic, sizeof(kMagic)) != 0) return 200;
  *library = const_cast<void*>(code);
  return figure("load=", kSuccess);
}
BALEEN_DRIVER cuLibraryUnload(void* /*library*/) { return kSuccess; }
