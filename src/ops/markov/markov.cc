#include "ops/markov/markov.h"

#include <fmt/format.h>

#include <array>

#include "base/check.h"

namespace baleen::ops {

CallShape Markov::shape(const MarkovArgs& args) {
  return {.num_rows = args.logits.extent(0),
          .detail = fmt::format("[{} -> {}]", args.w2->cols, args.w2->rows)};
}

void Markov::accesses(const MarkovArgs& args, Accesses& to) {
  to.read(args.tokens, args.w1).update(args.logits);
  if (!args.confidence_weight.empty()) to.read(args.hidden, args.confidence_weight).write(args.confidence);
}

void Markov::check(const MarkovArgs& args) {
  const std::int64_t num_rows = args.logits.extent(0), rank = args.w1.extent(1);
  BALEEN_CHECK_LE(static_cast<std::int64_t>(args.tokens.size()), num_rows);
  BALEEN_CHECK(args.w2->format == WeightFormat::kBF16);
  BALEEN_CHECK_EQ(args.logits.extent(1), args.w2->rows);
  BALEEN_CHECK_EQ(args.w2->cols, rank);
  BALEEN_CHECK_EQ(rank % 8, 0);
  BALEEN_CHECK(args.w1.dense());
  if (args.confidence_weight.empty()) return;
  BALEEN_CHECK_EQ(args.hidden.extent(0), num_rows);
  BALEEN_CHECK_EQ(static_cast<std::int64_t>(args.confidence_weight.size()), args.hidden.extent(1) + rank);
  BALEEN_CHECK_EQ(static_cast<std::int64_t>(args.confidence.size()), num_rows);
}

std::span<const CpuVariant<Markov>> Markov::cpu_variants() {
  static constexpr std::array<CpuVariant<Markov>, 2> kVariants{
      {{.name = kSimdVariant, .run = markov_cpu},
       {.name = kReferenceVariant,
        .run = [](const MarkovArgs& args, CpuContext& /*context*/) { markov_ref(args); }}}};
  return kVariants;
}

}  // namespace baleen::ops
