#include "ops/engram/engram.h"

#include <fmt/format.h>

#include <array>

#include "base/check.h"
#include "ops/operation/argument_bytes.h"

namespace baleen {

OpCost engram_cost(const EngramArgs& args) {
  // Of a value of a stream: a term of the product with its key in four, two squares in two each, the addition
  // in two, the rounding.
  constexpr double kOps = 11;
  OpCost cost;
  cost.scalar_ops = kOps * static_cast<double>(args.streams.size());
  cost.read_bytes = static_cast<double>(args.tokens.size() * sizeof(TokenId)) + bytes_of(args.projected) +
                    bytes_of(args.streams);
  cost.read_weights(static_cast<double>((args.q_weight.size() + args.k_weight.size()) * sizeof(Bf16Bits)));
  cost.write_bytes = bytes_of(args.streams);
  return cost;
}

}  // namespace baleen

namespace baleen::ops {

CallShape Engram::shape(const EngramArgs& args) {
  return {.num_rows = args.streams.extent(0), .detail = fmt::format("{} streams", args.num_streams())};
}

void Engram::accesses(const EngramArgs& args, Accesses& to) {
  to.read(args.tokens, args.projected, args.q_weight, args.k_weight).update(args.streams);
}

void Engram::check(const EngramArgs& args) {
  const std::int64_t n = args.num_streams(), d = args.width();
  BALEEN_CHECK_EQ(args.projected.extent(0), args.streams.extent(0));
  BALEEN_CHECK_EQ(args.projected.extent(1), (n + 1) * d);
  BALEEN_CHECK_LE(args.streams.extent(0), std::ssize(args.tokens));
  for (const View<const Bf16Bits, 2>& weight : {args.q_weight, args.k_weight})
    BALEEN_CHECK(weight.extent(0) == n && weight.extent(1) == d && weight.dense());
}

std::span<const CpuVariant<Engram>> Engram::cpu_variants() {
  static constexpr std::array<CpuVariant<Engram>, 2> kVariants{
      {{.name = kSimdVariant, .run = engram_cpu},
       {.name = kReferenceVariant,
        .run = [](const EngramArgs& args, CpuContext& /*context*/) { engram_ref(args); }}}};
  return kVariants;
}

}  // namespace baleen::ops
