// Grouped experts on the CPU. Token-expert pairs ("slots") are sorted by expert; the shared expert is one
// more group that holds every token. Three parallel loops: (1) gate, up, SwiGLU and packing for w2, by
// expert, row block and 128 inner columns or a multiple; (2) w2 by expert, row block and column range; (3)
// the sum per token in ascending expert order. Splitting by 128 inner columns lets one item quantise its own
// activation blocks, so nothing waits between the two halves of an expert but the one loop boundary. In a
// stated order of sums loops (1) and (2) are the shared expert's, and `stated_experts` computes the others.

#include "ops/experts/experts.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "numeric/bf16.h"
#include "numeric/block_scale.h"
#include "ops/experts/stated_experts.h"
#include "ops/experts/swiglu.h"
#include "ops/linear/linear.h"
#include "ops/matmul/int8_copies.h"

namespace baleen {
namespace {

constexpr std::int64_t kInnerColumns = kActivationGroup;
// Few rows only wait for weights, and every item begins with some that were not prefetched: longer items.
constexpr std::int64_t kFewRows = 4;
constexpr std::int64_t kFewRowsColumns = 4 * kInnerColumns;

/// How the products of routed experts are computed.
enum class Products : std::uint8_t {
  kFloat,  ///< the tile kernel computes them
  kInt8,   ///< so it does, from activations of 8 bits; the shared expert's, too
  kStated  ///< `stated_experts` computes them
};

/// Rows of a call of `stated_experts`: those of a prompt together would take as much memory again as the
/// rest of the operation.
constexpr std::int64_t kStatedRows = 512;

/// The tokens of one expert, and the items of the parallel loops that are its own.
struct Group {
  const ExpertWeights* expert = nullptr;
  const float* packed_x = nullptr;
  std::int64_t first_slot = 0;
  std::int64_t num_slots = 0;
  std::int64_t first_inner = 0;  ///< where its inner activations begin, [num_slots, its inner width]
  std::int64_t first_inner_item = 0;
  std::int64_t first_outer_item = 0;
};

/// Rounding in front of a matrix.
ActivationRounding rounding_of(const WeightMatrix& weight, const ExpertsArgs& args, Products products) {
  const ActivationRounding rounding = activation_rounding(weight, args.precision);
  const bool int8 =
      weight.format == WeightFormat::kInt8 || (products == Products::kInt8 && fp8_group(rounding) > 0);
  return int8 ? ActivationRounding::kInt8 : rounding;
}

struct Plan {
  Products products = Products::kFloat;
  Group* groups = nullptr;
  std::int64_t num_groups = 0;
  std::int64_t num_inner_values = 0;
  std::int64_t num_inner_items = 0;
  std::int64_t num_outer_items = 0;
  std::int32_t* token_of_slot = nullptr;
  float* weight_of_slot = nullptr;
  std::int32_t* slots_of_token = nullptr;      ///< [T, k], in ascending expert order
  std::int32_t* num_slots_of_token = nullptr;  ///< [T], at most k of them
  std::int64_t first_shared_slot = 0;
};

MatmulPartition inner_partition(const Group& group, int num_threads) {
  MatmulPartition partition(group.num_slots, group.expert->w1.rows, group.expert->w1.cols, num_threads);
  const std::int64_t inner_width = group.expert->w1.rows;
  partition.columns_per_item =
      group.num_slots <= kFewRows ? std::min(kFewRowsColumns, inner_width) : kInnerColumns;
  partition.num_column_blocks = (inner_width + partition.columns_per_item - 1) / partition.columns_per_item;
  return partition;
}

MatmulPartition outer_partition(const Group& group, int num_threads) {
  return {group.num_slots, group.expert->w2.rows, group.expert->w2.cols, num_threads};
}

float* pack_tokens(const ExpertsArgs& args, const WeightMatrix& weight, Products products,
                   CpuContext& context) {
  const std::int64_t num_rows = args.x.extent(0), width = args.x.extent(1);
  auto* packed = context.scratch.allocate<float>(num_rows * width);
  context.pool.parallel_for(num_rows, [&](std::int64_t row, int) {
    pack_activations(args.x.row(row), weight.format, rounding_of(weight, args, products),
                     packed + row * width);
  });
  return packed;
}

Plan make_plan(const ExpertsArgs& args, Products products, CpuContext& context) {
  const std::int64_t num_rows = args.x.extent(0), num_selected = args.ids.extent(1);
  const auto num_experts = static_cast<std::int64_t>(args.routed.size());
  const std::int64_t num_routed_slots = num_rows * num_selected;
  Plan plan{.products = products};
  plan.groups = context.scratch.allocate<Group>(num_experts + 1);
  plan.token_of_slot = context.scratch.allocate<std::int32_t>(num_routed_slots + num_rows);
  plan.weight_of_slot = context.scratch.allocate<float>(num_routed_slots + num_rows);
  plan.slots_of_token = context.scratch.allocate<std::int32_t>(num_routed_slots);
  auto* next_of_expert = context.scratch.allocate<std::int64_t>(num_experts);
  plan.num_slots_of_token = context.scratch.allocate<std::int32_t>(num_rows);
  std::fill_n(next_of_expert, num_experts, 0);
  std::fill_n(plan.num_slots_of_token, num_rows, 0);

  for (std::int64_t row = 0; row < num_rows; ++row) {
    for (std::int64_t k = 0; k < num_selected; ++k) {
      if (const std::int64_t expert = args.local_expert(row, k); expert >= 0) ++next_of_expert[expert];
    }
  }
  const float* packed = num_selected > 0 && products != Products::kStated
                            ? pack_tokens(args, args.routed.front().w1, products, context)
                            : nullptr;
  std::int64_t slot = 0;
  for (std::int64_t expert = 0; expert < num_experts; ++expert) {
    const std::int64_t count = std::exchange(next_of_expert[expert], slot);
    if (count > 0) {
      plan.groups[plan.num_groups++] = {&args.routed[static_cast<std::size_t>(expert)], packed, slot, count};
    }
    slot += count;
  }
  for (std::int64_t row = 0; row < num_rows; ++row) {
    for (std::int64_t k = 0; k < num_selected; ++k) {
      const std::int64_t expert = args.local_expert(row, k);
      if (expert < 0) continue;
      const std::int64_t at = next_of_expert[expert]++;
      plan.token_of_slot[at] = static_cast<std::int32_t>(row);
      plan.weight_of_slot[at] = args.weights(row, k);
    }
  }
  for (std::int64_t at = 0; at < slot; ++at) {
    const std::int64_t row = plan.token_of_slot[at];
    plan.slots_of_token[row * num_selected + plan.num_slots_of_token[row]++] = static_cast<std::int32_t>(at);
  }
  plan.first_shared_slot = slot;
  if (args.shared != nullptr) {
    const WeightMatrix& weight = args.shared->w1;
    const bool as_routed = packed != nullptr && weight.format == args.routed.front().w1.format &&
                           weight.activation_group == args.routed.front().w1.activation_group;
    const float* shared_packed = as_routed ? packed : pack_tokens(args, weight, products, context);
    plan.groups[plan.num_groups++] = {args.shared, shared_packed, slot, num_rows};
    for (std::int64_t row = 0; row < num_rows; ++row) {
      plan.token_of_slot[slot + row] = static_cast<std::int32_t>(row);
      plan.weight_of_slot[slot + row] = 1.0F;
    }
  }
  const int num_threads = context.pool.num_threads();
  for (std::int64_t i = 0; i < plan.num_groups; ++i) {
    plan.groups[i].first_inner_item = plan.num_inner_items;
    plan.groups[i].first_outer_item = plan.num_outer_items;
    if (products == Products::kStated && plan.groups[i].expert != args.shared) continue;
    plan.groups[i].first_inner = plan.num_inner_values;
    plan.num_inner_values += plan.groups[i].num_slots * plan.groups[i].expert->w1.rows;
    plan.num_inner_items += inner_partition(plan.groups[i], num_threads).num_items();
    plan.num_outer_items += outer_partition(plan.groups[i], num_threads).num_items();
  }
  return plan;
}

struct Item {
  const Group* group = nullptr;
  std::int64_t row = 0;  ///< within the group
  std::int64_t num_rows = 0;
  std::int64_t column = 0;
  std::int64_t num_columns = 0;
};

Item locate(const Plan& plan, std::int64_t item, std::int64_t Group::*first_item,
            MatmulPartition (*partition_of)(const Group&, int), WeightMatrix ExpertWeights::*weight,
            int num_threads) {
  std::int64_t which = plan.num_groups - 1;
  while (plan.groups[which].*first_item > item) --which;
  const Group& group = plan.groups[which];
  const MatmulPartition partition = partition_of(group, num_threads);
  const std::int64_t local = item - group.*first_item;
  const std::int64_t row = local % partition.num_row_blocks * partition.rows_per_item;
  const std::int64_t column = local / partition.num_row_blocks * partition.columns_per_item;
  return {&group, row, std::min(partition.rows_per_item, group.num_slots - row), column,
          std::min(partition.columns_per_item, (group.expert->*weight).rows - column)};
}

/// Gate, up and SwiGLU of a range of inner columns, packed for w2.
void run_inner(const ExpertsArgs& args, const Plan& plan, const Item& item, float* gate, float* up,
               float* packed_inner) {
  const Group& group = *item.group;
  const std::int64_t first_slot = group.first_slot + item.row;
  const bool exact = args.precision == Precision::kExact;
  for (const auto& [weight, to] : {std::pair{&group.expert->w1, gate}, std::pair{&group.expert->w3, up}}) {
    matmul_tile({.weight = weight,
                 .n_begin = item.column,
                 .n_end = item.column + item.num_columns,
                 .rounding = rounding_of(*weight, args, plan.products),
                 .packed = group.packed_x,
                 .row_index = plan.token_of_slot + first_slot,
                 .num_rows = item.num_rows,
                 .y = to - item.column,
                 .y_stride = item.num_columns,
                 .round_bf16 = !exact});
  }
  const WeightFormat format = group.expert->w2.format;
  const ActivationRounding rounding = rounding_of(group.expert->w2, args, plan.products);
  for (std::int64_t row = 0; row < item.num_rows; ++row) {
    float* inner = gate + row * item.num_columns;
    swiglu_row(inner, up + row * item.num_columns, item.num_columns, args.swiglu_limit,
               plan.weight_of_slot[first_slot + row], !exact, inner);
    pack_activations(
        {inner, static_cast<std::size_t>(item.num_columns)}, format, rounding,
        packed_inner + group.first_inner + (item.row + row) * group.expert->w1.rows + item.column);
  }
}

/// Outputs of routed experts, [slots, width].
void run_stated(const ExpertsArgs& args, const Plan& plan, float* outputs, CpuContext& context) {
  auto* experts = context.scratch.allocate<StatedExpertValues>(kStatedRows);
  std::int64_t num_experts = 0, num_rows = 0;
  const auto run_all = [&] {
    stated_experts({experts, static_cast<std::size_t>(num_experts)}, args.x, args.swiglu_limit,
                   !args.split.routed, context.pool, context.scratch);
    num_experts = num_rows = 0;
  };
  for (std::int64_t i = 0; i < plan.num_groups && plan.groups[i].expert != args.shared; ++i) {
    const Group& group = plan.groups[i];
    for (std::int64_t row = 0; row < group.num_slots;) {
      const std::int64_t slot = group.first_slot + row;
      const std::int64_t count = std::min(group.num_slots - row, kStatedRows - num_rows);
      experts[num_experts++] = {.expert = group.expert,
                                .row_index = plan.token_of_slot + slot,
                                .weights = plan.weight_of_slot + slot,
                                .num_rows = count,
                                .y = outputs + slot * args.x.extent(1)};
      row += count;
      num_rows += count;
      if (num_rows == kStatedRows) run_all();
    }
  }
  run_all();
}

void sum_token(const ExpertsArgs& args, const Plan& plan, const float* outputs, std::int64_t row,
               std::int64_t begin, std::int64_t end) {
  const std::int64_t num_selected = args.ids.extent(1), width = args.x.extent(1);
  for (std::int64_t i = begin; i < end; ++i) {
    float sum = 0.0F;
    for (std::int64_t k = 0; k < plan.num_slots_of_token[row]; ++k) {
      sum += outputs[plan.slots_of_token[row * num_selected + k] * width + i];
    }
    if (args.shared != nullptr) sum += outputs[(plan.first_shared_slot + row) * width + i];
    args.out(row, i) = args.precision == Precision::kExact || args.partial_sums ? sum : round_bf16(sum);
  }
}

void run(const ExpertsArgs& args, Products products, CpuContext& context) {
  if (args.x.extent(0) == 0) return;
  const ScratchScope scope(context.scratch);
  const std::int64_t num_rows = args.x.extent(0), width = args.x.extent(1);
  const int num_threads = context.pool.num_threads();
  BALEEN_CHECK(args.routed.empty() || args.routed.front().w1.rows % kInnerColumns == 0);
  BALEEN_CHECK(args.shared == nullptr || args.shared->w1.rows % kInnerColumns == 0);
  const Plan plan = make_plan(args, products, context);
  const std::int64_t num_slots = plan.first_shared_slot + (args.shared != nullptr ? num_rows : 0);
  auto* packed_inner = context.scratch.allocate<float>(plan.num_inner_values);
  auto* outputs = context.scratch.allocate<float>(num_slots * width);
  if (products == Products::kStated) run_stated(args, plan, outputs, context);
  const std::int64_t block_floats = MatmulPartition::kMaxBlockRows * kInnerColumns;
  auto* blocks = context.scratch.allocate<float>(2 * block_floats * num_threads);

  context.pool.parallel_for(plan.num_inner_items, [&](std::int64_t index, int thread) {
    const Item item =
        locate(plan, index, &Group::first_inner_item, inner_partition, &ExpertWeights::w1, num_threads);
    float* gate = blocks + 2 * block_floats * thread;
    run_inner(args, plan, item, gate, gate + block_floats, packed_inner);
  });
  context.pool.parallel_for(plan.num_outer_items, [&](std::int64_t index, int) {
    const Item item =
        locate(plan, index, &Group::first_outer_item, outer_partition, &ExpertWeights::w2, num_threads);
    const std::int64_t slot = item.group->first_slot + item.row;
    matmul_tile({.weight = &item.group->expert->w2,
                 .n_begin = item.column,
                 .n_end = item.column + item.num_columns,
                 .rounding = rounding_of(item.group->expert->w2, args, plan.products),
                 .packed = packed_inner + item.group->first_inner + item.row * item.group->expert->w1.rows,
                 .num_rows = item.num_rows,
                 .y = outputs + slot * width,
                 .y_stride = width,
                 .round_bf16 = args.precision != Precision::kExact &&
                               !(item.group->expert == args.shared ? args.split.shared : args.split.routed)});
  });
  constexpr std::int64_t kSumColumns = 1024;
  const std::int64_t pieces = (width + kSumColumns - 1) / kSumColumns;
  context.pool.parallel_for(num_rows * pieces, [&](std::int64_t item, int) {
    const std::int64_t begin = item % pieces * kSumColumns;
    sum_token(args, plan, outputs, item / pieces, begin, std::min(width, begin + kSumColumns));
  });
}

}  // namespace

void experts_cpu(const ExpertsArgs& args, CpuContext& context) { run(args, Products::kFloat, context); }

void experts_int8(const ExpertsArgs& args, CpuContext& context) {
  if (args.shared == nullptr || !is_fp8(args.shared->w1.format)) return run(args, Products::kInt8, context);
  const auto copied = [&](const WeightMatrix& weight) { return int8_copy(weight, context); };
  const ExpertWeights shared{
      .w1 = copied(args.shared->w1), .w2 = copied(args.shared->w2), .w3 = copied(args.shared->w3)};
  ExpertsArgs with_copies = args;
  with_copies.shared = &shared;
  run(with_copies, Products::kInt8, context);
}

void experts_stated(const ExpertsArgs& args, CpuContext& context) { run(args, Products::kStated, context); }

std::int64_t stated_variant_scratch_bytes(std::int64_t num_rows, std::int64_t num_selected,
                                          std::int64_t width, std::int64_t inner_width,
                                          std::int64_t num_experts, int num_threads) {
  const std::int64_t rows_of_call = std::min(num_rows * num_selected, kStatedRows);
  return experts_scratch_bytes(num_rows, num_selected, width, inner_width, num_experts, num_threads) +
         Arena::bytes_for<StatedExpertValues>(kStatedRows) +
         stated_experts_scratch_bytes(std::min(rows_of_call, num_experts), rows_of_call, width, inner_width);
}

std::int64_t experts_scratch_bytes(std::int64_t num_rows, std::int64_t num_selected, std::int64_t width,
                                   std::int64_t inner_width, std::int64_t num_experts, int num_threads) {
  const std::int64_t num_slots = num_rows * (num_selected + 1);
  return Arena::bytes_for<Group>(num_experts + 1) + Arena::bytes_for<std::int64_t>(num_experts) +
         2 * Arena::bytes_for<float>(num_slots) + Arena::bytes_for<std::int32_t>(num_slots) +
         Arena::bytes_for<std::int32_t>(num_rows) + 2 * Arena::bytes_for<float>(num_rows * width) +
         Arena::bytes_for<float>(num_slots * inner_width) + Arena::bytes_for<float>(num_slots * width) +
         Arena::bytes_for<float>(2 * MatmulPartition::kMaxBlockRows * kInnerColumns * num_threads);
}

}  // namespace baleen
