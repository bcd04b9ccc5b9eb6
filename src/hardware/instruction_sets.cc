#include "hardware/instruction_sets.h"

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

std::int64_t lowest_bit(std::int64_t bits) { return bits & -bits; }

}  // namespace

std::vector<std::string> available_instruction_sets() {
  std::vector<std::string> names;
  for (std::int64_t left = compiled_and_supported(); left != 0; left &= left - 1) {
    names.emplace_back(hwy::TargetName(lowest_bit(left)));
  }
  return names;
}

void limit_instruction_set(std::string_view name) {
  hwy::DisableTargets(0);
  if (name == "best") return;
  for (std::int64_t left = compiled_and_supported(); left != 0; left &= left - 1) {
    const std::int64_t target = lowest_bit(left);
    if (hwy::TargetName(target) != name) continue;
    hwy::DisableTargets(target - 1);
    return;
  }
  fail("instruction set \"{}\": this machine and build have {}", name,
       fmt::join(available_instruction_sets(), ", "));
}

std::string instruction_set_in_use() { return hwy::TargetName(lowest_bit(compiled_and_supported())); }

}  // namespace baleen
