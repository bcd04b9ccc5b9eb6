#include "device/compile_cache.h"

#include <cstdlib>

#include "base/error.h"
#include "base/number.h"
#include "base/quoted_text.h"

namespace baleen {
namespace {

constexpr const char* kMaxSize = "CUDA_CACHE_MAXSIZE";
constexpr const char* kDisable = "CUDA_CACHE_DISABLE";
constexpr const char* kPath = "CUDA_CACHE_PATH";
constexpr const char* kCacheBytes = "1073741824";  // what drivers for CUDA 12 and later have by themselves

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

bool is_off() { return environment(kDisable) == "1"; }

bool has_room(std::int64_t module_bytes) {
  const Result<std::int64_t> bytes = read_whole(environment(kMaxSize), {0, std::int64_t{1} << 32});
  return !bytes.ok() || bytes.value() >= module_bytes;
}

}  // namespace

bool compile_cache_keeps(std::int64_t module_bytes) { return !is_off() && has_room(module_bytes); }

void enlarge_compile_cache() { static_cast<void>(::setenv(kMaxSize, kCacheBytes, /*replace=*/0)); }

std::string compilation_text(std::string_view module, std::int64_t module_bytes,
                             ComputeCapability capability) {
  const std::string what =
      fmt::format("{} has no machine code for compute capability {}.{}: the driver compiles its kernels",
                  module, capability.major, capability.minor);
  if (is_off()) return fmt::format("{} at every start, as {} says", what, kDisable);
  if (!has_room(module_bytes)) {
    return fmt::format("{} at every start, as {} is {} and they take up to {}; unset it", what, kMaxSize,
                       shortened_text(environment(kMaxSize)), module_bytes);
  }
  const std::string_view path = environment(kPath);
  return fmt::format("{}, which takes some seconds at the first start and is kept in {} for the others", what,
                     path.empty() ? "~/.nv/ComputeCache" : path);
}

}  // namespace baleen
