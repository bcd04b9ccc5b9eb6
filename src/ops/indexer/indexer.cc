#include "ops/indexer/indexer.h"

#include <fmt/format.h>

#include <array>

#include "base/check.h"

namespace baleen::ops {
namespace {

std::int64_t scratch_bytes(const StepShape& shape, const DeviceTraits& traits) {
  return indexer_scratch_bytes(shape.index_n_heads, shape.index_head_dim, shape.index_topk, traits.num_units);
}

}  // namespace

CallShape Indexer::shape(const IndexerArgs& args) {
  return {.num_rows = args.q.extent(0),
          .detail = fmt::format("{} heads x {}, top {}", args.q.extent(1), args.q.extent(2),
                                args.selected.extent(1))};
}

void Indexer::check(const IndexerArgs& args) {
  BALEEN_CHECK_EQ(args.q.extent(0), args.batch.num_rows());
  BALEEN_CHECK_EQ(args.q.extent(2), args.keys.format.dim);
  BALEEN_CHECK(args.keys.format.precision == args.precision);
  BALEEN_CHECK(args.head_weights.extent(0) == args.q.extent(0) &&
               args.head_weights.extent(1) == args.q.extent(1));
  BALEEN_CHECK_EQ(args.selected.extent(0), args.q.extent(0));
  BALEEN_CHECK_LE(1, args.selected.extent(1));
}

void Indexer::accesses(const IndexerArgs& args, Accesses& to) {
  to.read(args.q, args.head_weights, args.cosine, args.sine, args.keys).write(args.selected);
}

std::span<const CpuVariant<Indexer>> Indexer::cpu_variants() {
  static constexpr std::array<CpuVariant<Indexer>, 2> kVariants{
      {{.name = kSimdVariant, .run = indexer_cpu, .scratch_bytes = scratch_bytes},
       {.name = kReferenceVariant,
        .run = [](const IndexerArgs& args, CpuContext& /*context*/) { indexer_ref(args); }}}};
  return kVariants;
}

}  // namespace baleen::ops
