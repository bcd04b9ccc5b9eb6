#include "numeric/bf16_dots.h"

#include <atomic>

namespace baleen {
namespace {

std::atomic<Bf16Dots>& choice() {
  static std::atomic<Bf16Dots> chosen = Bf16Dots::kWhereFaster;
  return chosen;
}

bool is_faster_with_dots() {
#if defined(__x86_64__)
  static const bool is_intel = __builtin_cpu_is("intel") != 0;
  return !is_intel;
#else
  return false;
#endif
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

void choose_bf16_dots(Bf16Dots choice_now) { choice().store(choice_now, std::memory_order_relaxed); }

Bf16Dots chosen_bf16_dots() { return choice().load(std::memory_order_relaxed); }

bool uses_bf16_dots() {
  if (!machine_has_bf16_dots() || chosen_bf16_dots() == Bf16Dots::kNever) return false;
  return chosen_bf16_dots() == Bf16Dots::kAlways || is_faster_with_dots();
}

}  // namespace baleen
