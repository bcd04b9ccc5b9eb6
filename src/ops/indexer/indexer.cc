#include "ops/indexer/indexer.h"

#include <fmt/format.h>

#include <array>

#include "base/check.h"

namespace baleen::ops {
namespace {

std::int64_t scratch_bytes(const StepShape& shape, const DeviceTraits& traits) {
  return indexer_scratch_bytes(shape.index_n_heads, shape.index_head_dim, shape.index_topk, traits.num_units,
                               shape.candidate_topk_blocks);
}

}  // namespace

CallShape Indexer::shape(const IndexerArgs& args) {
  const std::string_view blocks = args.blocks.are_chosen()  ? ", choosing blocks"
                                  : args.blocks.are_given() ? ", in chosen blocks"
                                                            : "";
  return {.num_rows = args.q.extent(0),
          .detail = fmt::format("{} heads x {}, top {}{}", args.q.extent(1), args.q.extent(2),
                                args.selected.extent(1), blocks)};
}

void Indexer::check(const IndexerArgs& args) {
  BALEEN_CHECK_EQ(args.q.extent(0), args.batch.num_rows());
  BALEEN_CHECK_EQ(args.q.extent(2), args.keys.format.dim);
  BALEEN_CHECK(args.keys.format.precision == args.precision);
  BALEEN_CHECK(args.head_weights.extent(0) == args.q.extent(0) &&
               args.head_weights.extent(1) == args.q.extent(1));
  BALEEN_CHECK_EQ(args.selected.extent(0), args.q.extent(0));
  BALEEN_CHECK_LE(1, args.selected.extent(1));
  BALEEN_CHECK_LE(1, args.ratio);
  BALEEN_CHECK(!(args.blocks.are_chosen() && args.blocks.are_given()));
  BALEEN_CHECK_EQ(args.blocks.size > 0, args.blocks.are_chosen() || args.blocks.are_given());
  if (args.blocks.are_chosen()) BALEEN_CHECK_EQ(args.blocks.chosen.extent(0), args.q.extent(0));
  if (args.blocks.are_given()) BALEEN_CHECK_EQ(args.blocks.given.extent(0), args.q.extent(0));
}

void Indexer::accesses(const IndexerArgs& args, Accesses& to) {
  to.read(args.q, args.head_weights, args.cosine, args.sine, args.keys, args.blocks.given)
      .write(args.selected, args.blocks.chosen);
}

std::span<const CpuVariant<Indexer>> Indexer::cpu_variants() {
  static constexpr std::array<CpuVariant<Indexer>, 2> kVariants{
      {{.name = kSimdVariant, .run = indexer_cpu, .scratch_bytes = scratch_bytes},
       {.name = kReferenceVariant,
        .run = [](const IndexerArgs& args, CpuContext& /*context*/) { indexer_ref(args); }}}};
  return kVariants;
}

}  // namespace baleen::ops
