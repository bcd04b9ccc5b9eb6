#include "ops/experts/experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"

namespace baleen {

std::int64_t split_experts_scratch_bytes(std::int64_t num_rows, std::int64_t num_selected, std::int64_t width,
                                         std::int64_t num_experts, ExpertSplit split) {
  // An expert's first row is a multiple of four.
  constexpr std::int64_t kMaxUnusedRows = 3;
  constexpr std::int64_t kExtraBytes = 2;
  const std::int64_t slots = num_rows * num_selected;
  const std::int64_t routed = slots + kMaxUnusedRows * (std::min(slots, num_experts) + 1);
  return split.routed || split.shared ? kExtraBytes * width * (routed + num_rows) : 0;
}

std::optional<Reason> why_not_stated(const ExpertsArgs& args) {
  if (args.sums == ExpertSums::kStated) return "adds up in an order of its own; the stated one is wanted";
  return std::nullopt;
}

std::optional<Reason> why_not_small_groups(const ExpertsArgs& args) {
  const auto wants_others = [](const ExpertWeights& expert) {
    return expert.w1.activation_group != kActivationGroup;
  };
  if ((!args.routed.empty() && wants_others(args.routed.front())) ||
      (args.shared != nullptr && wants_others(*args.shared)))
    return "rounds activations with a scale per 128 values; these weights want one per 32";
  return std::nullopt;
}

std::optional<Reason> why_not_groups_of_32(const ExpertsArgs& args) {
  if (const auto why = why_not_stated(args)) return why;
  for (const ExpertWeights* expert : {args.routed.empty() ? nullptr : &args.routed.front(), args.shared}) {
    if (expert == nullptr) continue;
    if (expert->w1.activation_group != kSmallActivationGroup)
      return "rounds activations with a scale per 32 values; these weights want others";
    const WeightFormat format = expert->w1.format;
    if (format != WeightFormat::kFp8x32 && (format != WeightFormat::kFp4 || expert == args.shared))
      return "takes FP4 experts, and FP8 ones in blocks of 32";
  }
  return std::nullopt;
}

}  // namespace baleen

namespace baleen::ops {
namespace {

std::int64_t scratch_bytes(const StepShape& shape, const DeviceTraits& traits) {
  return experts_scratch_bytes(shape.max_rows, shape.num_experts_per_tok, shape.hidden_size,
                               shape.moe_intermediate_size, shape.n_routed_experts, traits.num_units);
}

std::int64_t stated_scratch_bytes(const StepShape& shape, const DeviceTraits& traits) {
  return stated_variant_scratch_bytes(shape.max_rows, shape.num_experts_per_tok, shape.hidden_size,
                                      shape.moe_intermediate_size, shape.n_routed_experts, traits.num_units);
}

std::optional<Reason> why_not_simd(const ExpertsArgs& args, const DeviceTraits& /*traits*/) {
  return why_not_stated(args);
}

std::optional<Reason> why_not_int8(const ExpertsArgs& args, const DeviceTraits& /*traits*/) {
  if (const auto why = why_not_stated(args)) return why;
  if (args.precision != Precision::kReleased) return kInt8RoundsActivations;
  if (!args.routed.empty() && args.routed.front().w1.format != WeightFormat::kFp4)
    return "takes routed experts in FP4: of FP8 ones it would need a second copy of nearly the whole model";
  return std::nullopt;
}

std::optional<Reason> why_not_of_stated(const ExpertsArgs& args, const DeviceTraits& /*traits*/) {
  if (args.sums != ExpertSums::kStated) return "adds up in the stated order, which is not wanted";
  return std::nullopt;
}

}  // namespace

CallShape Experts::shape(const ExpertsArgs& args) {
  // Dispatch, first products, SwiGLU, second product, combination; of the shared expert the three in the
  // middle.
  constexpr int kRoutedKernels = 5, kSharedKernels = 3;
  const bool shares = args.shared != nullptr;
  const std::int64_t num_chosen = args.ids.extent(1);
  CallShape shape{.num_rows = args.x.extent(0),
                  .num_kernels = (num_chosen > 0 ? kRoutedKernels : 0) + (shares ? kSharedKernels : 0)};
  if (args.hints.chosen_per_token > 0)
    shape.num_rows =
        (shape.num_rows * num_chosen + args.hints.chosen_per_token - 1) / args.hints.chosen_per_token;
  if (args.hints.expected && args.hints.expected->tokens > 0)
    shape.num_rows = std::llround(args.hints.expected->tokens);
  if (args.hints.expected && num_chosen > 0) {
    shape.detail = fmt::format("{} experts, {:.0f} assignments{}", args.routed.size(),
                               args.hints.expected->assignments, shares ? ", shared" : "");
  } else {
    shape.detail =
        fmt::format("{} of {} experts{}", num_chosen, args.routed.size(), shares ? ", shared" : "");
  }
  return shape;
}

CallKey Experts::key(const ExpertsArgs& args) {
  CallKey key{args.x.extent(0), args.ids.extent(1), static_cast<std::int64_t>(args.routed.size()),
              static_cast<std::int64_t>(args.sums),
              args.hints.expected ? std::llround(args.hints.expected->distinct) : -1};
  for (const ExpertWeights* expert : {args.routed.empty() ? nullptr : &args.routed.front(), args.shared}) {
    key.add(expert == nullptr ? -1 : static_cast<std::int64_t>(expert->w1.format));
    key.add(expert == nullptr ? 0 : expert->w1.activation_group);
    key.add(expert == nullptr ? 0 : expert->w1.rows);
    key.add(expert == nullptr ? 0 : expert->w1.cols);
  }
  return key;
}

void Experts::check(const ExpertsArgs& args) {
  BALEEN_CHECK(args.x.data() != args.out.data() || args.x.empty());
  BALEEN_CHECK_EQ(args.x.extent(0), args.ids.extent(0));
  BALEEN_CHECK(args.sums == ExpertSums::kFree || args.precision == Precision::kReleased);
  BALEEN_CHECK(args.sums == ExpertSums::kFree || args.routed.empty() ||
               args.routed.front().w1.format == WeightFormat::kFp4);
}

void Experts::accesses(const ExpertsArgs& args, Accesses& to) {
  to.read(args.x, args.ids, args.weights).read(args.x_fp8, args.x.extent(0), args.x.extent(1));
  to.read(args.hints.next.ids).write(args.out);
  for (const ExpertPlaces& places : {args.places, args.hints.next.places}) {
    const auto num_experts = static_cast<std::size_t>(
        places.of_expert != nullptr || places.copied != nullptr ? std::ssize(args.routed) : 0);
    to.read(std::span(places.of_expert, places.of_expert != nullptr ? num_experts : 0));
    if (places.copied == nullptr) continue;
    const ExpertSlots& slots = places.slots;
    to.read(std::span(slots.buffered, num_experts));
    to.update(std::span(slots.routed, 1), std::span(places.copied, num_experts), std::span(slots.state, 1),
              std::span(slots.counts, 1), std::span(slots.host.state, slots.host.state != nullptr ? 1 : 0),
              MemoryRange{places.blocks, places.count * places.block_bytes});
  }
}

std::span<const CpuVariant<Experts>> Experts::cpu_variants() {
  static constexpr std::array<CpuVariant<Experts>, 4> kVariants{
      {{.name = kSimdVariant, .run = experts_cpu, .why_not = why_not_simd, .scratch_bytes = scratch_bytes},
       {.name = kInt8Variant, .run = experts_int8, .why_not = why_not_int8, .scratch_bytes = scratch_bytes},
       {.name = "stated",
        .run = experts_stated,
        .why_not = why_not_of_stated,
        .scratch_bytes = stated_scratch_bytes},
       {.name = kReferenceVariant,
        .run = [](const ExpertsArgs& args, CpuContext& /*context*/) { experts_ref(args); }}}};
  return kVariants;
}

}  // namespace baleen::ops
