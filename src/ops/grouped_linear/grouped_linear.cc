#include "ops/grouped_linear/grouped_linear.h"

#include "base/check.h"
#include "ops/operation/argument_bytes.h"

namespace baleen {
namespace {

/// Matrix `group` of the second axis: rows T apart by the whole row.
template <class T>
View<T, 2> group_of(View<T, 3> x, std::int64_t group) {
  return {x.data() + group * x.stride(1), {x.extent(0), x.extent(2)}, {x.stride(0), 1}};
}

}  // namespace

void grouped_linear(const GroupedLinearArgs& args, CpuContext& context) {
  const std::int64_t num_groups = args.x.extent(1);
  const std::int64_t group_rows = args.weight->rows / num_groups;
  // Row slices of FP8 weights start on a scale block; the config asks for o_lora_rank in multiples of 128.
  BALEEN_CHECK(args.weight->rows % num_groups == 0 && group_rows % 128 == 0);
  const ScratchScope scope(context.scratch);
  auto* weights = context.scratch.allocate<WeightMatrix>(num_groups);
  auto* products = context.scratch.allocate<MatmulProduct>(num_groups);
  const View<float, 3> y(args.y.data(), {args.y.extent(0), num_groups, group_rows},
                         {args.y.stride(0), group_rows, 1});
  for (std::int64_t group = 0; group < num_groups; ++group) {
    weights[group] = args.weight->slice_rows(group * group_rows, (group + 1) * group_rows);
    products[group] = {.weight = &weights[group],
                       .x = group_of(args.x.f32(), group),
                       .round_bf16 = args.precision != Precision::kExact,
                       .y = group_of(y, group)};
  }
  matmul({products, static_cast<std::size_t>(num_groups)}, context);
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

std::int64_t grouped_linear_scratch_bytes(std::int64_t num_rows, std::int64_t num_groups,
                                          std::int64_t num_inputs) {
  return num_groups * matmul_scratch_bytes(num_rows, num_inputs) +
         Arena::bytes_for<WeightMatrix>(num_groups) + Arena::bytes_for<MatmulProduct>(num_groups);
}

}  // namespace baleen
