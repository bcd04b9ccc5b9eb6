#include "numeric/bf16_tiles.h"

#include <atomic>

#include "numeric/bf16_dots.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace baleen {
namespace {

std::atomic<bool>& allowed() {
  static std::atomic<bool> is_allowed = true;
  return is_allowed;
}

#if defined(__x86_64__)

/// Bits of CPUID leaf 7.
bool processor_has_tiles() {
  constexpr unsigned kAmxBf16 = 1U << 22;
  constexpr unsigned kAmxTile = 1U << 24;
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kAmxBf16) != 0 && (d & kAmxTile) != 0;
}

/// Fails also where the system does not save the registers of AMX (XCR0).
bool tiles_permitted() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

#else

bool processor_has_tiles() { return false; }
bool tiles_permitted() { return false; }

#endif

}  // namespace

bool machine_has_bf16_tiles() {
  static const bool has = machine_has_bf16_dots() && processor_has_tiles() && tiles_permitted();
  return has;
}

void allow_bf16_tiles(bool is_allowed) { allowed().store(is_allowed, std::memory_order_relaxed); }

bool bf16_tiles_allowed() { return allowed().load(std::memory_order_relaxed); }

bool uses_bf16_tiles() { return bf16_tiles_allowed() && machine_has_bf16_tiles(); }

}  // namespace baleen
