#include "ops/engram/engram_lookup.h"

#include <fmt/format.h>

#include <array>

#include "base/check.h"
#include "ops/operation/argument_bytes.h"

namespace baleen {

OpCost engram_lookup_cost(const EngramLookupArgs& args) {
  OpCost cost;
  cost.scalar_ops = 2 * static_cast<double>(args.z.size());  // scaled, rounded
  cost.read_bytes = static_cast<double>(args.rows.size()) *
                    static_cast<double>(std::int64_t{sizeof(std::int64_t)} + args.row_bytes());
  cost.write_bytes = bytes_of(args.z);
  return cost;
}

}  // namespace baleen

namespace baleen::ops {

CallShape EngramLookup::shape(const EngramLookupArgs& args) {
  return {.num_rows = args.rows.extent(0),
          .detail = fmt::format("{} rows of {}", args.rows.extent(1), args.codes.extent(1))};
}

void EngramLookup::accesses(const EngramLookupArgs& args, Accesses& to) {
  to.read(args.rows, args.codes, args.scales).write(args.z);
}

void EngramLookup::check(const EngramLookupArgs& args) {
  const std::int64_t width = args.codes.extent(1);
  BALEEN_CHECK_EQ(args.scales.extent(0), args.codes.extent(0));
  BALEEN_CHECK_EQ(args.scales.extent(1), (width + kEngramScaleColumns - 1) / kEngramScaleColumns);
  BALEEN_CHECK_EQ(args.z.extent(0), args.rows.extent(0));
  BALEEN_CHECK_EQ(args.z.extent(1), args.rows.extent(1) * width);
}

std::span<const CpuVariant<EngramLookup>> EngramLookup::cpu_variants() {
  static constexpr std::array<CpuVariant<EngramLookup>, 2> kVariants{
      {{.name = kSimdVariant, .run = engram_lookup_cpu},
       {.name = kReferenceVariant,
        .run = [](const EngramLookupArgs& args, CpuContext& /*context*/) { engram_lookup_ref(args); }}}};
  return kVariants;
}

}  // namespace baleen::ops
