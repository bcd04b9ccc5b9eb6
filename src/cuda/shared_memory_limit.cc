#include "cuda/shared_memory_limit.h"

#include <map>
#include <mutex>

namespace baleen {
namespace {

struct Limits {
  std::mutex mutex;
  std::map<int, std::int64_t> bytes;  // by GPU
};

Limits& limits() {
  static Limits limits;
  return limits;
}

}  // namespace

void limit_shared_memory(int gpu, std::int64_t bytes) {
  const std::lock_guard lock(limits().mutex);
  limits().bytes[gpu] = bytes;
}

std::int64_t shared_memory_limit(int gpu) {
  const std::lock_guard lock(limits().mutex);
  const auto found = limits().bytes.find(gpu);
  return found == limits().bytes.end() ? 0 : found->second;
}

}  // namespace baleen
