#include "device/cpu_device.h"

#include <unistd.h>

#include "ops/operations.h"

namespace baleen {

DeviceTraits cpu_traits(int num_threads) { return {.num_units = num_threads}; }

CpuDevice::CpuDevice(int num_threads, std::int64_t scratch_bytes, std::vector<ForcedVariant> forced,
                     VariantTable<CpuContext> variants)
    : traits_(cpu_traits(num_threads)),
      pool_(num_threads),
      scratch_(scratch_bytes),
      context_{.pool = pool_, .scratch = scratch_, .int8_copies = &int8_copies_},
      executor_(std::move(variants), traits_, context_, std::move(forced)) {}

CpuDevice::CpuDevice(int num_threads, std::int64_t scratch_bytes, std::vector<ForcedVariant> forced)
    : CpuDevice(num_threads, scratch_bytes, std::move(forced), cpu_variants(Operations())) {}

std::int64_t CpuDevice::free_bytes() const { return ::sysconf(_SC_PHYS_PAGES) * ::sysconf(_SC_PAGESIZE); }

}  // namespace baleen
