#include "model/expert_transport.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/check.h"
#include "model/parallel_plan.h"

namespace baleen {
namespace {

constexpr std::string_view kRaw = "as the activations lie in memory";
constexpr Reason kNoKernels =
    "has no kernels on GPUs so far: theirs send each assignment to a place of its own";

constexpr std::array<ExpertTransportTraits, 8> kTransports{
    {{.transport = ExpertTransport::kNone,
      .name = "none",
      .moves = "nothing: a rank has all experts of its stage",
      .for_one_rank = true,
      .capturable = true},
     {.transport = ExpertTransport::kAllReduce,
      .name = "all-reduce",
      .moves = "float32 sums of each rank's experts, added up by all ranks, which have the same tokens",
      .adds_sums = true,
      .needs_same_tokens = true,
      .capturable = true},
     {.transport = ExpertTransport::kAllToAll,
      .name = "all-to-all",
      .moves = "assignments to their experts and outputs back, as many as there are",
      .way = DispatchWay::kAssignments,
      .activations = kRaw,
      .why_not_on_gpu = "is for CPU ranks, which exchange messages; GPUs have peer-memory for it"},
     {.transport = ExpertTransport::kFused,
      .name = "fused",
      .moves =
          "assignments and outputs as by peer-memory, by the kernels that multiply them while others come; "
          "steps of more than 256 tokens a rank, and ranks that share a GPU, by peer-memory",
      .way = DispatchWay::kAssignments,
      .fuses = true,
      .max_ranks_by_itself = 2,
      .activations = "FP8 with a scale for 128 values; outputs BF16",
      .capturable = true,
      .why_not_on_cpu = "is for GPUs of one host; CPU ranks have all-to-all for it"},
     {.transport = ExpertTransport::kPeerMemory,
      .name = "peer-memory",
      .moves = "assignments and outputs by writes into each other's memory, each at a place of its own",
      .way = DispatchWay::kAssignments,
      .activations = "FP8 with a scale for 128 values where the experts take that, else BF16; outputs BF16",
      .capturable = true,
      .why_not_on_cpu = "is for GPUs of one host; CPU ranks have all-to-all for it"},
     {.transport = ExpertTransport::kAllGather,
      .name = "all-gather",
      .moves = "all tokens to all ranks, and outputs back",
      .way = DispatchWay::kGatheredAssignments,
      .activations = kRaw,
      .why_not_on_gpu = kNoKernels},
     {.transport = ExpertTransport::kReduceScatter,
      .name = "reduce-scatter",
      .moves = "all tokens to all ranks, and float32 sums of each rank's experts back",
      .way = DispatchWay::kGatheredTokens,
      .adds_sums = true,
      .activations = kRaw,
      .why_not_on_gpu = kNoKernels},
     {.transport = ExpertTransport::kNccl,
      .name = "nccl",
      .moves = "all tokens to all ranks, of any hosts, and outputs back, by NCCL",
      .way = DispatchWay::kGatheredPlaces,
      .activations = "FP8 with a scale for 128 values where the experts take that, else BF16; outputs BF16",
      .capturable = true,
      .why_not_on_cpu = "NCCL is a library for GPUs; CPU ranks have all-gather and all-to-all"}}};

/// What a transport says of one kind of devices.
using WhyNot = Reason ExpertTransportTraits::*;
constexpr WhyNot kOnCpu = &ExpertTransportTraits::why_not_on_cpu,
                 kOnGpu = &ExpertTransportTraits::why_not_on_gpu;

WhyNot why_not_on(const DeviceTraits& device) { return device.shares_host_memory ? kOnCpu : kOnGpu; }

/// Transports that serve the plan, on one of the devices at least.
std::vector<std::string_view> names_for(const ParallelPlan& plan, const std::vector<WhyNot>& devices) {
  std::vector<std::string_view> names;
  for (const ExpertTransportTraits& one : kTransports) {
    const auto serves = [&](WhyNot device) { return (one.*device).empty(); };
    if (!why_not(one, plan) && std::ranges::any_of(devices, serves)) names.push_back(one.name);
  }
  return names;
}

/// What the plan takes where `why_not_on` says which transports the device has.
const ExpertTransportTraits& first_that_serves(const ParallelPlan& plan, WhyNot why_not_on) {
  if (plan.expert_transport != ExpertTransport::kAutomatic) return traits_of(plan.expert_transport);
  const auto* const found = std::ranges::find_if(kTransports, [&](const ExpertTransportTraits& one) {
    const bool is_measured = one.max_ranks_by_itself == 0 || plan.stage_ranks() <= one.max_ranks_by_itself;
    return is_measured && !why_not(one, plan) && (one.*why_not_on).empty();
  });
  BALEEN_CHECK(found != kTransports.end());
  return *found;
}

std::string sentence(const ExpertTransportTraits& transport, Reason reason,
                     const std::vector<std::string_view>& others) {
  return fmt::format("‹expert transport› {}: {}; this plan can have {}", transport.name, reason,
                     fmt::join(others, ", "));
}

}  // namespace

std::span<const ExpertTransportTraits> expert_transports() { return kTransports; }

const ExpertTransportTraits& traits_of(ExpertTransport transport) {
  const auto* const found = std::ranges::find(kTransports, transport, &ExpertTransportTraits::transport);
  BALEEN_CHECK(found != kTransports.end());
  return *found;
}

std::optional<Reason> why_not(const ExpertTransportTraits& transport, const ParallelPlan& plan) {
  if (transport.for_one_rank)
    return plan.stage_ranks() > 1 ? std::optional<Reason>("the experts lie on several ranks") : std::nullopt;
  if (plan.stage_ranks() == 1) return "every rank has all experts of its stage: nothing has to move";
  if (transport.needs_same_tokens && plan.dp > 1)
    return "ranks have tokens of their own: there is more than one data-parallel group";
  if (transport.needs_same_tokens && plan.sequence_parallel)
    return "ranks have tokens of their own: sequence parallelism shares them out";
  if (transport.needs_same_tokens && plan.cp > 1)
    return "ranks have tokens of their own: context parallelism shares them out";
  if (transport.fuses && plan.moe_tp > 1) return "takes whole experts; these are split over ranks";
  if (transport.adds_sums && !plan.places_linearly())
    return "sums in the order of ranks would depend on where experts lie, which is not linear here";
  return std::nullopt;
}

std::optional<Reason> why_not(const ExpertTransportTraits& transport, const DeviceTraits& device) {
  const Reason reason = transport.*why_not_on(device);
  return reason.empty() ? std::nullopt : std::optional<Reason>(reason);
}

const ExpertTransportTraits& expert_transport(const ParallelPlan& plan) {
  return first_that_serves(plan, kOnCpu);
}

const ExpertTransportTraits& expert_transport(const ParallelPlan& plan, const DeviceTraits& device) {
  return first_that_serves(plan, why_not_on(device));
}

std::optional<std::string> transport_violation(const ParallelPlan& plan) {
  if (plan.expert_transport == ExpertTransport::kAutomatic) return std::nullopt;
  const ExpertTransportTraits& named = traits_of(plan.expert_transport);
  auto reason = why_not(named, plan);
  if (!reason && !named.why_not_on_cpu.empty() && !named.why_not_on_gpu.empty())
    reason = named.why_not_on_gpu;
  if (!reason) return std::nullopt;
  return sentence(named, *reason, names_for(plan, {kOnCpu, kOnGpu}));
}

std::optional<std::string> transport_violation(const ParallelPlan& plan, const DeviceTraits& device) {
  if (plan.expert_transport == ExpertTransport::kAutomatic) return std::nullopt;
  const ExpertTransportTraits& named = traits_of(plan.expert_transport);
  auto reason = why_not(named, plan);
  if (!reason) reason = why_not(named, device);
  if (!reason) return std::nullopt;
  return sentence(named, *reason, names_for(plan, {why_not_on(device)}));
}

}  // namespace baleen
