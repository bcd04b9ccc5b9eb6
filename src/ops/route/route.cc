#include "ops/route/route.h"

#include <array>

namespace baleen::ops {
namespace {

std::int64_t scratch_bytes(const StepShape& shape, const DeviceTraits& traits) {
  return route_scratch_bytes(shape.n_routed_experts, traits.num_units);
}

}  // namespace

CallShape Route::shape(const RouteArgs& args) {
  return {.num_rows = args.logits.extent(0), .detail = args.hash_table.empty() ? "by score" : "by token"};
}

void Route::accesses(const RouteArgs& args, Accesses& to) {
  to.read(args.logits, args.bias, args.hash_table, args.tokens)
      .write(args.ids, args.weights, std::span(args.routed, args.routed == nullptr ? 0 : 1))
      .update(args.load);
}

std::span<const CpuVariant<Route>> Route::cpu_variants() {
  static constexpr std::array<CpuVariant<Route>, 2> kVariants{
      {{.name = kSimdVariant, .run = route_cpu, .scratch_bytes = scratch_bytes},
       {.name = kReferenceVariant,
        .run = [](const RouteArgs& args, CpuContext& /*context*/) { route_ref(args); }}}};
  return kVariants;
}

}  // namespace baleen::ops
