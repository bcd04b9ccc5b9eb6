#include "ops/kv_store/kv_store.h"

#include <array>

#include "base/check.h"

namespace baleen::ops {
namespace {

std::int64_t scratch_bytes(const StepShape& shape, const DeviceTraits& traits) {
  return kv_store_scratch_bytes(shape.head_dim, traits.num_units);
}

}  // namespace

CallShape KvStore::shape(const KvStoreArgs& args) { return {.num_rows = args.kv.extent(0)}; }

void KvStore::check(const KvStoreArgs& args) {
  BALEEN_CHECK_EQ(args.kv.extent(0), args.batch.num_rows());
  BALEEN_CHECK_EQ(args.window.format.width(), args.kv.extent(1));
  BALEEN_CHECK_EQ(static_cast<std::int64_t>(args.weight.size()), args.kv.extent(1));
  BALEEN_CHECK_EQ(args.window.format.rope, 2 * args.cosine.extent(1));
}

void KvStore::accesses(const KvStoreArgs& args, Accesses& to) {
  to.read(args.kv, args.weight, args.cosine, args.sine).write(args.window);
}

std::span<const CpuVariant<KvStore>> KvStore::cpu_variants() {
  static constexpr std::array<CpuVariant<KvStore>, 2> kVariants{
      {{.name = kSimdVariant, .run = kv_store_cpu, .scratch_bytes = scratch_bytes},
       {.name = kReferenceVariant,
        .run = [](const KvStoreArgs& args, CpuContext& /*context*/) { kv_store_ref(args); }}}};
  return kVariants;
}

}  // namespace baleen::ops
