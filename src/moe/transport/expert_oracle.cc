#include "moe/transport/expert_oracle.h"

#include <algorithm>

#include "device/make_device.h"
#include "model/rank_config.h"
#include "ops/fused_experts/fused_experts.h"
#include "tensor/unbacked_memory.h"

namespace baleen {
namespace {

/// Rows and assignments of each that a transport brings to one rank, as routing without preferences would.
struct BroughtRows {
  std::int64_t num_rows = 0, num_slots = 0;
};

BroughtRows brought_rows(const ExpertTransportTraits& transport, const ExpertRequest& request) {
  const ParallelPlan& plan = request.plan;
  const std::int64_t num_slots = request.config.num_experts_per_tok;
  if (!transport.way) return {request.step_rows, num_slots};
  const std::int64_t tokens =
      plan.stage_ranks() * ((request.step_rows + plan.group_ranks() - 1) / plan.group_ranks());
  if (*transport.way == DispatchWay::kGatheredTokens) return {tokens, num_slots};
  // Where sizes do not depend on the routing, every assignment has a place on every rank.
  const std::int64_t ranks = transport.capturable ? 1 : plan.ep;
  return {(tokens * num_slots + ranks - 1) / ranks, 1};
}

bool fuses_on(const ExpertTransportTraits& transport, const DeviceTraits& device) {
  return transport.fuses && !why_not(transport, device);
}

/// Verdicts about those that do dispatch, experts and combine at once. `routed`: the call of the experts.
std::vector<VariantVerdict> fused_backends(const ExpertsArgs& routed, const DeviceTraits& traits,
                                           const ExpertRequest& request) {
  const ParallelPlan& plan = request.plan;
  const RankGroup stage = RankGroup::strided(0, 1, plan.stage_ranks(), 0);
  const ExpertRanks placement{
      .stage = &stage, .ep = plan.ep, .num_experts = std::ssize(routed.routed) * plan.ep};
  const std::int64_t num_slots = routed.hints.chosen_per_token;
  const std::int64_t num_rows = num_slots > 0 ? routed.x.extent(0) / (plan.stage_ranks() * num_slots) : 0;
  ExpertWeights shared = routed.routed.front();
  for (WeightMatrix ExpertWeights::*which : {&ExpertWeights::w1, &ExpertWeights::w2, &ExpertWeights::w3})
    (shared.*which).format = request.config.fp8_format();
  ExpertsArgs shared_call = routed;
  shared_call.shared = &shared;
  const View<const std::int32_t, 2> ids(routed.ids.data(), {num_rows, num_slots});
  const DispatchArgs dispatch{.placement = placement,
                              .x = routed.x.slice(0, num_rows),
                              .sends_fp8 = request.weights != WeightFormat::kBF16 &&
                                           request.config.activation_group() == kActivationGroup,
                              .ids = ids};
  const CombineArgs combine{.placement = placement, .ids = ids};
  const void* const arguments[] = {&dispatch, &routed, &shared_call, &combine};
  std::vector<VariantVerdict> verdicts = variant_verdicts(
      traits, request.forced_variants,
      kOperationSequence<ops::Dispatch, ops::Experts, ops::Experts, ops::Combine>, arguments);
  std::erase_if(verdicts, [](const VariantVerdict& one) { return one.operation != FusedExperts::kName; });
  return verdicts;
}

/// Verdicts about the device's back-ends for the call that follows a transport.
std::vector<VariantVerdict> backends(const ExpertTransportTraits& transport, const ExpertRequest& request) {
  const ModelConfig& config = request.config;
  const DeviceTraits& traits = request.device;
  UnbackedMemory memory;
  const auto matrix = [&](std::int64_t rows, std::int64_t cols) {
    return WeightMatrix{.format = request.weights, .rows = rows, .cols = cols, .data = memory.allocate(1)};
  };
  const std::int64_t inner = config.moe_intermediate_size / request.plan.moe_tp, width = config.hidden_size;
  const std::vector<ExpertWeights> routed(
      static_cast<std::size_t>(rank_config(config, request.plan, Stage()).num_experts()),
      {.w1 = matrix(inner, width), .w2 = matrix(width, inner), .w3 = matrix(inner, width)});
  const BroughtRows brought = brought_rows(transport, request);
  const std::int64_t num_rows = brought.num_rows, num_slots = brought.num_slots;
  const auto activations = [&](ElementType type, std::int64_t columns) {
    return Activations<2>(memory.allocate(1), type, {num_rows, columns});
  };
  const ExpertsArgs args{
      .x = activations(traits.activation_type, width),
      .ids = {reinterpret_cast<const std::int32_t*>(memory.allocate(1)), {num_rows, num_slots}},
      .weights = activations(ElementType::kF32, num_slots),
      .routed = routed,
      .precision = request.precision,
      .out = activations(transport.adds_sums ? ElementType::kF32 : traits.activation_type, width),
      .partial_sums = transport.adds_sums,
      .split = {.routed = request.plan.moe_tp > 1},
      .hints = {.chosen_per_token = transport.way && num_slots == 1 ? config.num_experts_per_tok : 0}};
  if (fuses_on(transport, request.device)) return fused_backends(args, traits, request);
  const void* const arguments[] = {&args};
  return variant_verdicts(traits, request.forced_variants, kOperationSequence<ops::Experts>, arguments);
}

}  // namespace

std::vector<ExpertCandidate> expert_candidates(const ExpertRequest& request) {
  const ExpertTransportTraits* wanted = &expert_transport(request.plan, request.device);
  const bool is_forced = request.plan.expert_transport != ExpertTransport::kAutomatic;
  std::vector<ExpertCandidate> candidates;
  for (const ExpertTransportTraits& transport : expert_transports()) {
    auto refusal = why_not(transport, request.plan);
    if (!refusal) refusal = why_not(transport, request.device);
    std::vector<VariantVerdict> verdicts = backends(transport, request);
    if (verdicts.empty())
      verdicts.push_back({.operation = ops::Experts::kName, .outcome = VariantOutcome::kChosen});
    const auto is_chosen = [](const VariantVerdict& one) { return one.outcome == VariantOutcome::kChosen; };
    if (&transport == wanted && fuses_on(transport, request.device) &&
        std::ranges::none_of(verdicts, is_chosen))
      wanted = &traits_of(ExpertTransport::kPeerMemory);
    for (VariantVerdict& verdict : verdicts) {
      if (refusal) {
        verdict.outcome = VariantOutcome::kRefused;
        verdict.reason = *refusal;
      } else if (&transport != wanted && verdict.outcome == VariantOutcome::kChosen) {
        verdict.outcome = is_forced ? VariantOutcome::kExcluded : VariantOutcome::kNotNeeded;
      }
      candidates.push_back({&transport, verdict, refusal.has_value()});
    }
  }
  return candidates;
}

}  // namespace baleen
