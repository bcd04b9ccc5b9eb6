#include "ops/gather_rows/gather_rows.h"

#include <array>

#include <cstring>

#include "base/check.h"

namespace baleen {
namespace {

std::int64_t row_bytes(const GatherRowsArgs& args) {
  return args.from.extent(1) * size_of(args.from.element_type());
}

}  // namespace

void gather_rows_ref(const GatherRowsArgs& args) {
  const std::int64_t bytes = row_bytes(args);
  for (const RowPair& pair : args.pairs) {
    BALEEN_DCHECK(pair.from < args.from.extent(0) && pair.to < args.to.extent(0));
    std::memcpy(args.to.address() + pair.to * bytes, args.from.address() + pair.from * bytes,
                static_cast<std::size_t>(bytes));
  }
}

OpCost gather_rows_cost(const GatherRowsArgs& args) {
  OpCost cost;
  cost.read_bytes = cost.write_bytes =
      static_cast<double>(row_bytes(args)) * static_cast<double>(args.pairs.size());
  return cost;
}

/// Rows go back to where they came from.
OpCost gather_rows_backward_cost(const GatherRowsArgs& args) { return gather_rows_cost(args); }

}  // namespace baleen

namespace baleen::ops {

CallShape GatherRows::shape(const GatherRowsArgs& args) { return {.num_rows = std::ssize(args.pairs)}; }

void GatherRows::accesses(const GatherRowsArgs& args, Accesses& to) { to.read(args.from).write(args.to); }

std::span<const CpuVariant<GatherRows>> GatherRows::cpu_variants() {
  static constexpr std::array<CpuVariant<GatherRows>, 1> kVariants{
      {{.name = kReferenceVariant,
        .run = [](const GatherRowsArgs& args, CpuContext& /*context*/) { gather_rows_ref(args); }}}};
  return kVariants;
}

}  // namespace baleen::ops
