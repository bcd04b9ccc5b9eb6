#include "ops/compressor/compressor.h"

#include <fmt/format.h>

#include <array>

#include "base/check.h"

namespace baleen::ops {
namespace {

std::int64_t scratch_bytes(const StepShape& shape, const DeviceTraits& traits) {
  return compressor_scratch_bytes(shape.head_dim, traits.num_units);
}

}  // namespace

CallShape Compressor::shape(const CompressorArgs& args) {
  return {.num_rows = args.kv.extent(0),
          .detail = fmt::format("ratio {}, width {}", args.ratio, args.norm_weight.size())};
}

void Compressor::check(const CompressorArgs& args) {
  const auto head_dim = static_cast<std::int64_t>(args.norm_weight.size());
  const bool overlap = args.ratio == 4;
  BALEEN_CHECK(args.ratio == 4 || args.ratio == 128);
  BALEEN_CHECK((args.latent.base == nullptr) != (args.index_key.base == nullptr));
  BALEEN_CHECK_EQ(args.state.width, (overlap ? 2 : 1) * head_dim);
  BALEEN_CHECK_EQ(args.state.ring_rows % args.ratio, 0);
  BALEEN_CHECK_LE((overlap ? 2 : 1) * args.ratio, args.state.ring_rows);
  BALEEN_CHECK(args.overlap.base == nullptr || (overlap && args.overlap.width == head_dim));
  BALEEN_CHECK_EQ(args.kv.extent(0), args.batch.num_rows());
  BALEEN_CHECK_EQ(args.kv.extent(1), args.state.width);
  BALEEN_CHECK(args.gate.extents() == args.kv.extents());
  BALEEN_CHECK(args.ape.extent(0) == args.ratio && args.ape.extent(1) == args.state.width);
}

void Compressor::accesses(const CompressorArgs& args, Accesses& to) {
  const auto bytes = [](std::int64_t floats) { return floats * std::int64_t{sizeof(float)}; };
  const CompressorState& rings = args.state;
  const CompressorOverlap& overlap = args.overlap;
  to.read(args.kv, args.ape, args.norm_weight, args.frequencies).update(args.gate);
  to.update(range_of_pages(reinterpret_cast<const std::byte*>(rings.base),
                           bytes(2 * rings.ring_rows * rings.width), rings.num_slots,
                           bytes(rings.slot_stride)));
  to.update(range_of_pages(reinterpret_cast<const std::byte*>(overlap.base),
                           bytes(2 * kOverlapRows * overlap.width), overlap.num_pages,
                           bytes(overlap.page_stride)));
  to.write(args.latent, args.index_key);
}

std::span<const CpuVariant<Compressor>> Compressor::cpu_variants() {
  static constexpr std::array<CpuVariant<Compressor>, 2> kVariants{
      {{.name = kSimdVariant, .run = compressor_cpu, .scratch_bytes = scratch_bytes},
       {.name = kReferenceVariant,
        .run = [](const CompressorArgs& args, CpuContext& /*context*/) { compressor_ref(args); }}}};
  return kVariants;
}

}  // namespace baleen::ops
