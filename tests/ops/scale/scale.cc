#include "tests/ops/scale/scale.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "ops/operation/argument_bytes.h"
#include "ops/operation/kernel_time.h"

namespace baleen {

void scale_ref(const ScaleArgs& args) {
  for (std::int64_t row = 0; row < args.x.extent(0); ++row) {
    for (std::int64_t i = 0; i < args.x.extent(1); ++i) args.y(row, i) = args.factor * args.x(row, i);
  }
}

void scale_by_rows(const ScaleArgs& args, CpuContext& context) {
  const ScratchScope scope(context.scratch);
  auto* products = context.scratch.allocate<float>(args.x.size());
  const std::int64_t width = args.x.extent(1);
  context.pool.parallel_for(args.x.extent(0), [&](std::int64_t row, int) {
    const auto x = args.x.row(row);
    std::ranges::transform(x, products + row * width, [&](float value) { return args.factor * value; });
    std::copy_n(products + row * width, width, args.y.row(row).begin());
  });
}

}  // namespace baleen

namespace baleen::ops {

OpCost Scale::cost(const ScaleArgs& args) {
  OpCost cost;
  cost.scalar_ops = static_cast<double>(args.x.size());
  cost.read_bytes = bytes_of(args.x);
  cost.write_bytes = bytes_of(args.y);
  return cost;
}

CallKey Scale::key(const ScaleArgs& args) { return {args.x.extent(0), args.x.extent(1)}; }

CallShape Scale::shape(const ScaleArgs& args) { return {.num_rows = args.x.extent(0)}; }

void Scale::accesses(const ScaleArgs& args, Accesses& to) { to.read(args.x).write(args.y); }

void Scale::check(const ScaleArgs& args) { BALEEN_CHECK(args.y.extents() == args.x.extents()); }

std::span<const CpuVariant<Scale>> Scale::cpu_variants() {
  // Of a value, and of waking threads: as made up as the operation.
  constexpr double kValueSeconds = 1e-9, kWakeSeconds = 5e-6;
  static constexpr std::array<CpuVariant<Scale>, 2> kVariants{
      {{.name = "rows",
        .run = scale_by_rows,
        .why_not = [](const ScaleArgs& args, const DeviceTraits& /*traits*/) -> std::optional<Reason> {
          if (args.x.extent(1) % 4 != 0) return "takes widths that are a multiple of 4";
          return std::nullopt;
        },
        .predict =
            [](const ScaleArgs& args, const DeviceTraits& traits) {
              const double row = kValueSeconds * static_cast<double>(args.x.extent(1));
              return kWakeSeconds + row * pieces_in_turn(args.x.extent(0), traits.num_units);
            },
        .scratch_bytes =
            [](const StepShape& shape, const DeviceTraits& /*traits*/) {
              return Arena::bytes_for<float>(shape.max_rows * shape.hidden_size);
            }},
       {.name = kReferenceVariant,
        .run = [](const ScaleArgs& args, CpuContext& /*context*/) { scale_ref(args); },
        .predict =
            [](const ScaleArgs& args, const DeviceTraits& /*traits*/) {
              return kValueSeconds * static_cast<double>(args.x.size());
            }}}};
  return kVariants;
}

}  // namespace baleen::ops
