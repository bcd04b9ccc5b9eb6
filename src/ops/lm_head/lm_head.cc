#include "ops/lm_head/lm_head.h"

#include <fmt/format.h>

#include <array>

#include "ops/matmul/training_products.h"
#include "ops/operation/argument_bytes.h"

namespace baleen {

void lm_head_cpu(const LmHeadArgs& args, CpuContext& context) {
  const MatmulProduct product{.weight = args.weight, .x = args.x, .y = args.logits};
  matmul({&product, 1}, context);
}

void lm_head_ref(const LmHeadArgs& args) {
  const MatmulProduct product{.weight = args.weight, .x = args.x, .y = args.logits};
  matmul_ref({&product, 1});
}

OpCost lm_head_cost(const LmHeadArgs& args) {
  OpCost cost;
  if (args.x.size() == 0) return cost;
  cost = matmul_cost(*args.weight, static_cast<double>(args.x.extent(0)), ActivationRounding::kNone);
  cost.read_bytes += bytes_of(args.x);
  cost.write_bytes += bytes_of(args.logits);
  return cost;
}

OpCost lm_head_backward_cost(const LmHeadArgs& args) {
  OpCost cost;
  if (args.x.size() == 0) return cost;
  cost = matmul_backward_cost(*args.weight, static_cast<double>(args.x.extent(0)), ActivationRounding::kNone);
  cost.read_bytes += bytes_of(args.x) + bytes_of(args.logits);
  cost.write_bytes += bytes_of(args.x);
  // The gradient of cross entropy by the logits, at a row's first reading: largest, difference, exponential,
  // sum, scale.
  cost.scalar_ops = 5 * static_cast<double>(args.logits.size());
  return cost;
}

}  // namespace baleen

namespace baleen::ops {
namespace {

std::int64_t scratch_bytes(const StepShape& shape, const DeviceTraits& /*traits*/) {
  return matmul_scratch_bytes(shape.max_logit_rows, shape.hidden_size);
}

template <Operands kOperands>
void train(const LmHeadArgs& args, CpuContext& context) {
  const MatmulProduct product{.weight = args.weight, .x = args.x, .y = args.logits};
  matmul_training({&product, 1}, kOperands, context);
}

std::optional<Reason> why_not_training_call(const LmHeadArgs& args, const DeviceTraits& /*traits*/) {
  return why_not_training(args.weight->format);
}

}  // namespace

CallShape LmHead::shape(const LmHeadArgs& args) {
  return {.num_rows = args.x.extent(0),
          .detail = fmt::format("[{} -> {}]", args.weight->cols, args.weight->rows)};
}

void LmHead::accesses(const LmHeadArgs& args, Accesses& to) { to.read(args.x).write(args.logits); }

std::span<const CpuVariant<LmHead>> LmHead::cpu_variants() {
  static constexpr std::array<CpuVariant<LmHead>, 4> kVariants{
      {{.name = kSimdVariant, .run = lm_head_cpu, .scratch_bytes = scratch_bytes},
       {.name = kTrainingVariant, .run = train<Operands::kAsStored>, .why_not = why_not_training_call},
       {.name = kTrainingBf16Variant, .run = train<Operands::kBf16>, .why_not = why_not_training_call},
       {.name = kReferenceVariant,
        .run = [](const LmHeadArgs& args, CpuContext& /*context*/) { lm_head_ref(args); }}}};
  return kVariants;
}

}  // namespace baleen::ops
