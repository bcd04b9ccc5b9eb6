#include "ops/stream_mean/stream_mean.h"

#include <array>

#include "base/check.h"
#include "ops/operation/argument_bytes.h"

namespace baleen {

OpCost stream_mean_cost(const StreamMeanArgs& args) {
  const std::int64_t num_means = args.streams.extent(0) * args.streams.extent(2);
  OpCost cost;
  // The sum, the product with 1 / n, the rounding.
  cost.scalar_ops = static_cast<double>(args.streams.size() + num_means);
  cost.read_bytes = bytes_of(args.streams);
  cost.write_bytes = static_cast<double>(num_means * size_of(args.out.element_type()));
  return cost;
}

}  // namespace baleen

namespace baleen::ops {

CallShape StreamMean::shape(const StreamMeanArgs& args) { return {.num_rows = args.streams.extent(0)}; }

void StreamMean::accesses(const StreamMeanArgs& args, Accesses& to) {
  // All of `out`: what stays in columns beside is kept.
  to.read(args.streams).update(args.out);
}

void StreamMean::check(const StreamMeanArgs& args) {
  BALEEN_CHECK_EQ(args.out.extent(0), args.streams.extent(0));
  BALEEN_CHECK(args.first_column >= 0);
  BALEEN_CHECK_LE(args.first_column + args.streams.extent(2), args.out.extent(1));
}

std::span<const CpuVariant<StreamMean>> StreamMean::cpu_variants() {
  static constexpr std::array<CpuVariant<StreamMean>, 2> kVariants{
      {{.name = kSimdVariant, .run = stream_mean_cpu},
       {.name = kReferenceVariant,
        .run = [](const StreamMeanArgs& args, CpuContext& /*context*/) { stream_mean_ref(args); }}}};
  return kVariants;
}

}  // namespace baleen::ops
