#include "ops/rms_norm/rms_norm.h"

#include <fmt/format.h>

#include <array>

#include "ops/operation/row_blocks.h"

namespace baleen::ops {
namespace {

void train(const RmsNormArgs& args, CpuContext& context) {
  if (!args.weight.empty() || args.precision == Precision::kExact) return rms_norm_cpu(args, context);
  for_row_blocks(context.pool, args.x.extent(0), args.x.extent(1),
                 [&](std::int64_t begin, std::int64_t end, int) {
                   RmsNormArgs rows = args;
                   rows.x = args.x.slice(begin, end);
                   rows.y = args.y.slice(begin, end);
                   rms_norm_ref(rows);
                 });
}

}  // namespace

CallShape RmsNorm::shape(const RmsNormArgs& args) {
  return {.num_rows = args.x.extent(0) / args.rows_per_token,
          .detail = fmt::format("width {}", args.x.extent(1))};
}

void RmsNorm::accesses(const RmsNormArgs& args, Accesses& to) {
  to.read(args.x, args.weight).write(args.y).write(args.y_fp8, args.y.extent(0), args.y.extent(1));
}

std::span<const CpuVariant<RmsNorm>> RmsNorm::cpu_variants() {
  static constexpr std::array<CpuVariant<RmsNorm>, 3> kVariants{
      {{.name = kSimdVariant, .run = rms_norm_cpu},
       {.name = kTrainingVariant, .run = train},
       {.name = kReferenceVariant,
        .run = [](const RmsNormArgs& args, CpuContext& /*context*/) { rms_norm_ref(args); }}}};
  return kVariants;
}

}  // namespace baleen::ops
