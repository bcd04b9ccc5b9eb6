#include "hardware/instruction_sets.h"

#include "numeric/bf16_dots.h"
#include "numeric/bf16_tiles.h"
#include "numeric/simd_targets.h"

#include <fmt/ranges.h>
#include <hwy/highway.h>

#include "base/error.h"

namespace baleen {
namespace {

/// Bits of all targets compiled into the kernels that may be used; a lower bit is a better target.
std::int64_t compiled_and_supported() {
  const std::int64_t supported = hwy::SupportedTargets();
  // Asking makes Highway dispatch to everything the machine has, also what was disabled, until it is set
  // again.
  hwy::GetChosenTarget().Update(supported);
  return supported & HWY_TARGETS;
}

/// AVX-512 with BF16 dot products, in front of AVX-512 without them.
constexpr std::string_view kWithBf16Dots = "AVX3_BF16";

/// The same and AMX's tiles, in front of that.
constexpr std::string_view kWithBf16Tiles = "AVX3_AMX";

bool has_bf16_tiles(std::int64_t targets) { return (targets & HWY_AVX3) != 0 && uses_bf16_tiles(); }

/// Whether `targets` with them may be used; "best" may do without all the same.
bool has_bf16_dots(std::int64_t targets) {
  return (targets & HWY_AVX3) != 0 && machine_has_bf16_dots() && chosen_bf16_dots() != Bf16Dots::kNever;
}

std::int64_t lowest_bit(std::int64_t bits) { return bits & -bits; }

}  // namespace

std::vector<std::string> available_instruction_sets() {
  std::vector<std::string> names;
  const std::int64_t targets = compiled_and_supported();
  if (has_bf16_tiles(targets)) names.emplace_back(kWithBf16Tiles);
  if (has_bf16_dots(targets)) names.emplace_back(kWithBf16Dots);
  for (std::int64_t left = targets; left != 0; left &= left - 1) {
    names.emplace_back(hwy::TargetName(lowest_bit(left)));
  }
  return names;
}

void limit_instruction_set(std::string_view name) {
  hwy::DisableTargets(0);
  choose_bf16_dots(Bf16Dots::kWhereFaster);
  allow_bf16_tiles(true);
  if (name == "best" || (name == kWithBf16Tiles && has_bf16_tiles(compiled_and_supported()))) return;
  allow_bf16_tiles(false);
  if (name == kWithBf16Dots && has_bf16_dots(compiled_and_supported())) {
    return choose_bf16_dots(Bf16Dots::kAlways);
  }
  for (std::int64_t left = compiled_and_supported(); left != 0; left &= left - 1) {
    const std::int64_t target = lowest_bit(left);
    if (hwy::TargetName(target) != name) continue;
    hwy::DisableTargets(target - 1);
    choose_bf16_dots(Bf16Dots::kNever);
    return;
  }
  allow_bf16_tiles(true);
  fail("instruction set \"{}\": this machine and build have {}", name,
       fmt::join(available_instruction_sets(), ", "));
}

std::string instruction_set_in_use() {
  const std::int64_t targets = compiled_and_supported();
  if (has_bf16_tiles(targets)) return std::string(kWithBf16Tiles);
  if (has_bf16_dots(targets) && uses_bf16_dots()) return std::string(kWithBf16Dots);
  return hwy::TargetName(lowest_bit(targets));
}

}  // namespace baleen
