// A libcuda.so.1 with one GPU, of which it says what BALEEN_MADE_UP_GPU says: "8.6" or "error". The program
// finds it where LD_LIBRARY_PATH leads to it.
#include <cstdlib>
#include <cstring>

#define BALEEN_DRIVER extern "C" __attribute__((visibility("default"))) int

namespace {

constexpr int kSuccess = 0, kUnknownError = 999;
constexpr int kCapabilityMajor = 75;

const char* says() { return std::getenv("BALEEN_MADE_UP_GPU"); }

}  // namespace

BALEEN_DRIVER cuInit(unsigned /*flags*/) {
  return std::strcmp(says(), "error") == 0 ? kUnknownError : kSuccess;
}
BALEEN_DRIVER cuDeviceGetCount(int* count) {
  *count = 1;
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
  *value = says()[attribute == kCapabilityMajor ? 0 : 2] - '0';
  return kSuccess;
}
BALEEN_DRIVER cuGetErrorString(int /*error*/, const char** text) {
  *text = "unknown error";
  return kSuccess;
}
