#include "engine/page_traits.h"

#include <fmt/format.h>

#include "drafts/draft_head.h"
#include "hardware/instruction_sets.h"

namespace baleen {
namespace {

/// Changes when pages of the same tokens get other bytes.
constexpr int kPageLayoutVersion = 1;

}  // namespace

std::string page_traits(const EngineOptions& options, const DeviceTraits& device) {
  std::string kernels(device.shares_host_memory ? instruction_set_in_use() : device.architecture);
  for (const ForcedVariant& forced : options.forced_variants)
    kernels += fmt::format(" {}={}", forced.operation, forced.variant);
  return fmt::format("layout {} {} {} {}", kPageLayoutVersion, precision_name(options.precision), kernels,
                     options.drafts ? options.draft_head->name : "main");
}

}  // namespace baleen
