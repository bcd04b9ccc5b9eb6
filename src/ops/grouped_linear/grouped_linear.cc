#include "ops/grouped_linear/grouped_linear.h"

#include <fmt/format.h>

#include <array>
#include <vector>

#include "base/check.h"
#include "ops/matmul/int8_copies.h"
#include "ops/matmul/training_products.h"
#include "ops/operation/argument_bytes.h"

namespace baleen {
namespace {

/// Matrix `group` of the second axis: rows T apart by the whole row.
template <class T>
View<T, 2> group_of(View<T, 3> x, std::int64_t group) {
  return {x.data() + group * x.stride(1), {x.extent(0), x.extent(2)}, {x.stride(0), 1}};
}

ActivationRounding rounding_of(const GroupedLinearArgs& args) {
  return args.precision == Precision::kExact ? ActivationRounding::kNone : ActivationRounding::kBf16;
}

/// A product for each group with its rows of `all`; `weights` and `products` have room for as many.
void make_products(const GroupedLinearArgs& args, const WeightMatrix& all, ActivationRounding rounding,
                   WeightMatrix* weights, MatmulProduct* products) {
  const std::int64_t num_groups = args.x.extent(1);
  const std::int64_t group_rows = all.rows / num_groups;
  // Row slices of FP8 weights start on a scale block; the config asks for o_lora_rank in multiples of 128.
  BALEEN_CHECK(all.rows % num_groups == 0 && (all.format == WeightFormat::kF32 || group_rows % 128 == 0));
  const View<float, 3> y(args.y.data(), {args.y.extent(0), num_groups, group_rows},
                         {args.y.stride(0), group_rows, 1});
  for (std::int64_t group = 0; group < num_groups; ++group) {
    weights[group] = all.slice_rows(group * group_rows, (group + 1) * group_rows);
    products[group] = {.weight = &weights[group],
                       .x = group_of(args.x.f32(), group),
                       .rounding = rounding,
                       .round_bf16 = args.precision != Precision::kExact,
                       .y = group_of(y, group)};
  }
}

void run(const GroupedLinearArgs& args, const WeightMatrix& weight, ActivationRounding rounding,
         CpuContext& context) {
  const std::int64_t num_groups = args.x.extent(1);
  const ScratchScope scope(context.scratch);
  auto* weights = context.scratch.allocate<WeightMatrix>(num_groups);
  auto* products = context.scratch.allocate<MatmulProduct>(num_groups);
  make_products(args, weight, rounding, weights, products);
  matmul({products, static_cast<std::size_t>(num_groups)}, context);
}

}  // namespace

void grouped_linear_cpu(const GroupedLinearArgs& args, CpuContext& context) {
  run(args, *args.weight, rounding_of(args), context);
}

void grouped_linear_training(const GroupedLinearArgs& args, Operands operands, CpuContext& context) {
  const auto num_groups = static_cast<std::size_t>(args.x.extent(1));
  std::vector<WeightMatrix> weights(num_groups);
  std::vector<MatmulProduct> products(num_groups);
  make_products(args, *args.weight, ActivationRounding::kNone, weights.data(), products.data());
  matmul_training(products, operands, context);
}

void grouped_linear_int8(const GroupedLinearArgs& args, CpuContext& context) {
  run(args, int8_copy(*args.weight, context), ActivationRounding::kInt8, context);
}

void grouped_linear_ref(const GroupedLinearArgs& args) {
  const auto num_groups = static_cast<std::size_t>(args.x.extent(1));
  std::vector<WeightMatrix> weights(num_groups);
  std::vector<MatmulProduct> products(num_groups);
  make_products(args, *args.weight, rounding_of(args), weights.data(), products.data());
  matmul_ref(products);
}

OpCost grouped_linear_cost(const GroupedLinearArgs& args) {
  OpCost cost;
  if (args.x.size() == 0) return cost;
  // A row meets each matrix with its own group: as many products as with all of them stacked.
  cost = matmul_cost(*args.weight, static_cast<double>(args.x.extent(0)), ActivationRounding::kNone);
  cost.read_bytes += bytes_of(args.x);
  cost.write_bytes += bytes_of(args.y);
  return cost;
}

OpCost grouped_linear_backward_cost(const GroupedLinearArgs& args) {
  OpCost cost;
  if (args.x.size() == 0) return cost;
  cost = matmul_backward_cost(*args.weight, static_cast<double>(args.x.extent(0)), ActivationRounding::kNone);
  cost.read_bytes += bytes_of(args.x) + bytes_of(args.y);
  cost.write_bytes += bytes_of(args.x);
  return cost;
}

std::int64_t grouped_linear_scratch_bytes(std::int64_t num_rows, std::int64_t num_groups,
                                          std::int64_t num_inputs) {
  return num_groups * matmul_scratch_bytes(num_rows, num_inputs) +
         Arena::bytes_for<WeightMatrix>(num_groups) + Arena::bytes_for<MatmulProduct>(num_groups);
}

}  // namespace baleen

namespace baleen::ops {
namespace {

template <Operands kOperands>
void train(const GroupedLinearArgs& args, CpuContext& context) {
  grouped_linear_training(args, kOperands, context);
}

std::optional<Reason> why_not_training_call(const GroupedLinearArgs& args, const DeviceTraits& /*traits*/) {
  return why_not_training(args.weight->format);
}

std::int64_t scratch_bytes(const StepShape& shape, const DeviceTraits& /*traits*/) {
  return grouped_linear_scratch_bytes(shape.max_rows, shape.o_groups, shape.group_dim);
}

}  // namespace

CallShape GroupedLinear::shape(const GroupedLinearArgs& args) {
  return {.num_rows = args.x.extent(0),
          .detail = fmt::format("{}{}{} groups [{} -> {}]", args.name, args.name.empty() ? "" : " ",
                                args.x.extent(1), args.weight->cols, args.weight->rows)};
}

void GroupedLinear::accesses(const GroupedLinearArgs& args, Accesses& to) { to.read(args.x).write(args.y); }

std::span<const CpuVariant<GroupedLinear>> GroupedLinear::cpu_variants() {
  static constexpr std::array<CpuVariant<GroupedLinear>, 5> kVariants{
      {{.name = kSimdVariant, .run = grouped_linear_cpu, .scratch_bytes = scratch_bytes},
       {.name = kInt8Variant,
        .run = grouped_linear_int8,
        .why_not = [](const GroupedLinearArgs& args,
                      const DeviceTraits& /*traits*/) -> std::optional<Reason> {
          if (args.precision != Precision::kReleased) return kInt8RoundsActivations;
          if (!is_fp8(args.weight->format)) return "takes FP8 weights";
          return std::nullopt;
        },
        .scratch_bytes = scratch_bytes},
       {.name = kTrainingVariant, .run = train<Operands::kAsStored>, .why_not = why_not_training_call},
       {.name = kTrainingBf16Variant, .run = train<Operands::kBf16>, .why_not = why_not_training_call},
       {.name = kReferenceVariant,
        .run = [](const GroupedLinearArgs& args, CpuContext& /*context*/) { grouped_linear_ref(args); }}}};
  return kVariants;
}

}  // namespace baleen::ops
