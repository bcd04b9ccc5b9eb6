#include "ops/entry_store/entry_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/check.h"

namespace baleen::ops {
namespace {

std::int64_t scratch_bytes(const StepShape& shape, const DeviceTraits& traits) {
  return entry_store_scratch_bytes(std::max(shape.head_dim, shape.index_head_dim), traits.num_units);
}

}  // namespace

CallShape EntryStore::shape(const EntryStoreArgs& args) {
  return {.num_rows = args.latent.extent(0), .detail = fmt::format("ratio {}", args.ratio)};
}

void EntryStore::check(const EntryStoreArgs& args) {
  BALEEN_CHECK(args.ratio == 1 || args.ratio == 2);
  BALEEN_CHECK_EQ(args.latent.extent(0), args.batch.num_rows());
  BALEEN_CHECK_EQ(args.key.extent(0), args.batch.num_rows());
  BALEEN_CHECK_EQ(args.latent.extent(1), args.entries.format.width());
  BALEEN_CHECK_EQ(args.key.extent(1), args.index_keys.format.dim);
  BALEEN_CHECK_EQ(static_cast<std::int64_t>(args.key_norm.size()), args.key.extent(1));
  BALEEN_CHECK_EQ(args.entries.format.rope, static_cast<int>(2 * args.frequencies.size()));
  BALEEN_CHECK_LE(static_cast<int>(2 * args.frequencies.size()), args.index_keys.format.dim);
  BALEEN_CHECK(args.entries.format.precision == args.index_keys.format.precision);
}

void EntryStore::accesses(const EntryStoreArgs& args, Accesses& to) {
  to.read(args.latent, args.key, args.key_norm, args.frequencies).write(args.entries, args.index_keys);
}

std::span<const CpuVariant<EntryStore>> EntryStore::cpu_variants() {
  static constexpr std::array<CpuVariant<EntryStore>, 2> kVariants{
      {{.name = kSimdVariant, .run = entry_store_cpu, .scratch_bytes = scratch_bytes},
       {.name = kReferenceVariant,
        .run = [](const EntryStoreArgs& args, CpuContext& /*context*/) { entry_store_ref(args); }}}};
  return kVariants;
}

}  // namespace baleen::ops
