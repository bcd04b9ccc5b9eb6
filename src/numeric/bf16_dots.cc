#include "numeric/bf16_dots.h"

#include <atomic>

namespace baleen {
namespace {

std::atomic<bool>& allowed_now() {
  static std::atomic<bool> allowed = true;
  return allowed;
}

}  // namespace

bool machine_has_bf16_dots() {
#if defined(__x86_64__)
  static const bool has =
      __builtin_cpu_supports("avx512bf16") != 0 && __builtin_cpu_supports("avx512vbmi") != 0;
  return has;
#else
  return false;
#endif
}

bool uses_bf16_dots() { return machine_has_bf16_dots() && allowed_now().load(std::memory_order_relaxed); }

void allow_bf16_dots(bool allowed) { allowed_now().store(allowed, std::memory_order_relaxed); }

}  // namespace baleen
