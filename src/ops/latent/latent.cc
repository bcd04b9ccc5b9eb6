#include "ops/latent/latent.h"

#include <fmt/format.h>

#include <array>

#include "base/check.h"

namespace baleen::ops {

CallShape Latent::shape(const LatentArgs& args) {
  return {.num_rows = args.kv.extent(0),
          .detail = fmt::format("ratio {}, width {}", args.ratio, args.norm_weight.size())};
}

void Latent::check(const LatentArgs& args) {
  const auto width = static_cast<std::int64_t>(args.norm_weight.size());
  BALEEN_CHECK(args.ratio == 1 || args.ratio == 2);
  BALEEN_CHECK_EQ(args.kv.extent(0), args.batch.num_rows());
  BALEEN_CHECK_EQ(args.kv.extent(1), width);
  BALEEN_CHECK(args.latent.extents() == args.kv.extents());
  if (args.ratio == 1) return;
  BALEEN_CHECK(args.gate.extents() == args.kv.extents());
  BALEEN_CHECK_EQ(args.state.width, width);
  BALEEN_CHECK_EQ(args.state.ring_rows % args.ratio, 0);
  BALEEN_CHECK_LE(args.ratio, args.state.ring_rows);
}

void Latent::accesses(const LatentArgs& args, Accesses& to) {
  const auto bytes = [](std::int64_t floats) { return floats * std::int64_t{sizeof(float)}; };
  const CompressorState& rings = args.state;
  to.read(args.kv, args.gate, args.norm_weight).write(args.latent);
  to.update(range_of_pages(reinterpret_cast<const std::byte*>(rings.base),
                           bytes(2 * rings.ring_rows * rings.width), rings.num_slots,
                           bytes(rings.slot_stride)));
}

std::span<const CpuVariant<Latent>> Latent::cpu_variants() {
  static constexpr std::array<CpuVariant<Latent>, 2> kVariants{
      {{.name = kSimdVariant, .run = latent_cpu},
       {.name = kReferenceVariant,
        .run = [](const LatentArgs& args, CpuContext& /*context*/) { latent_ref(args); }}}};
  return kVariants;
}

}  // namespace baleen::ops
