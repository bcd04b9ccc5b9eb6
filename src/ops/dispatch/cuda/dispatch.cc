#include "ops/dispatch/cuda/dispatch.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "comm/peer/peer_memory.h"
#include "numeric/block_scale.h"
#include "ops/collectives/cuda/collectives.h"
#include "ops/dispatch/cuda/nccl_dispatch.h"

namespace baleen::BALEEN_ARCH {
namespace {

constexpr Reason kTooMany = "has room for at most 16 experts of a token";
constexpr Reason kSplit = "takes whole experts; these are split over ranks";

std::optional<Reason> why_not_rows(const DispatchArgs& args) {
  if (args.placement.moe_tp() > 1) return kSplit;
  if (args.x.extent(1) % kActivationGroup != 0) return "moves rows in groups of 128 values";
  if (args.ids.extent(1) > kMaxSelected) return kTooMany;
  return std::nullopt;
}

std::optional<Reason> why_not_dispatch(const DispatchArgs& args, const DeviceTraits& /*traits*/) {
  if (args.way != DispatchWay::kAssignments)
    return "sends each assignment by itself; these rows are gathered";
  return why_not_rows(args);
}

std::optional<Reason> why_not_nccl_dispatch(const DispatchArgs& args, const DeviceTraits& /*traits*/) {
  if (args.way != DispatchWay::kGatheredPlaces)
    return "gathers rows, and each assignment has a place of its own; these are sent another way";
  return why_not_rows(args);
}

std::optional<Reason> why_not_combine(const CombineArgs& args, const DeviceTraits& /*traits*/) {
  if (args.placement.moe_tp() > 1) return kSplit;
  if (args.out.extent(1) % 8 != 0) return "adds 8 values at a time";
  if (args.ids.extent(1) > kMaxSelected) return kTooMany;
  return std::nullopt;
}

}  // namespace

ExpertHolders holders_of(const ExpertRanks& placement) {
  BALEEN_CHECK(placement.map == nullptr || placement.table != nullptr);
  return {static_cast<std::int32_t>(placement.experts_per_rank()), placement.table};
}

bool can_stage(const PeerView& peers, std::int64_t places, std::int64_t num_selected, std::int64_t width) {
  const std::int64_t output_bytes = places * width * std::int64_t{sizeof(Bf16Bits)};
  return places <= std::min(kMaxStagedTokens, peers.max_blocks) * num_selected &&
         output_bytes <= kMaxStagedBytes;
}

int blocks_for_many(std::int64_t num_tokens, const PeerView& peers, int num_sms) {
  const std::int64_t most = std::min(peers.max_blocks, num_sms);
  return static_cast<int>(std::clamp<std::int64_t>((num_tokens + kBlockTokens - 1) / kBlockTokens, 1, most));
}

DispatchLaunch dispatch_launch(const DispatchArgs& args, const CudaContext& context) {
  const std::int64_t num_selected = args.ids.extent(1);
  const std::int64_t most_tokens = (context.most_rows + args.row_parts - 1) / args.row_parts;
  const std::int64_t places = most_tokens * num_selected;
  BALEEN_CHECK(args.x.dense() && args.ids.dense() && args.weights.dense());
  BALEEN_CHECK_LE(args.x.extent(0), most_tokens);
  BALEEN_CHECK_LE(args.placement.stage->size() * places, args.arrived.extent(0));
  return {.peers = {.place = static_cast<std::int32_t>(args.placement.stage->place)},
          .holders = holders_of(args.placement),
          .own = {args.arrived.bf16().data(), args.arrived_fp8.codes, args.arrived_fp8.scales,
                  args.arrived_ids.data(), args.arrived_weights.data()},
          .scale_stride = args.arrived_fp8.scale_stride,
          .sends_fp8 = args.sends_fp8,
          .x = args.x.bf16().data(),
          .x_fp8 = args.x_fp8,
          .ids = args.ids.data(),
          .weights = args.weights.data(),
          .num_tokens = static_cast<std::int32_t>(args.x.extent(0)),
          .num_selected = static_cast<std::int32_t>(num_selected),
          .places = static_cast<std::int32_t>(places),
          .width = args.x.extent(1)};
}

CombineLaunch combine_launch(const CombineArgs& args) {
  BALEEN_CHECK(args.precision == Precision::kReleased);
  BALEEN_CHECK(args.y.dense() && args.ids.dense() && args.out.dense());
  return {.peers = {.place = static_cast<std::int32_t>(args.placement.stage->place)},
          .holders = holders_of(args.placement),
          .y = args.y.bf16().data(),
          .first_own_row = args.placement.stage->place * args.received->rows_from.front(),
          .experts = args.received->experts,
          .ids = args.ids.data(),
          .shared = args.shared.empty() ? nullptr : args.shared.bf16().data(),
          .out = args.out.bf16().data(),
          .num_tokens = static_cast<std::int32_t>(args.out.extent(0)),
          .num_selected = static_cast<std::int32_t>(args.ids.extent(1)),
          .places = static_cast<std::int32_t>(args.received->rows_from.front()),
          .width = args.out.extent(1)};
}

void note_places(const DispatchArgs& args, std::int64_t places) {
  const std::int64_t size = args.placement.stage->size();
  args.received->num_rows = size * places;
  args.received->experts = args.arrived_ids.data();
  args.received->rows_from.assign(static_cast<std::size_t>(size), places);
}

void dispatch(const DispatchArgs& args, CudaContext& context) {
  const PeerRank& peers = peers_of(context, ops::Dispatch::kName);
  DispatchLaunch launch = dispatch_launch(args, context);
  launch.peers = peers.view(*args.placement.stage);
  if (can_stage(launch.peers, launch.places, launch.num_selected, launch.width)) {
    launch_staged_dispatch(launch, context);
  } else {
    launch_written_dispatch(launch, context);
  }
  note_places(args, launch.places);
}

void combine(const CombineArgs& args, CudaContext& context) {
  const PeerRank& peers = peers_of(context, ops::Combine::kName);
  CombineLaunch launch = combine_launch(args);
  launch.peers = peers.view(*args.placement.stage);
  if (can_stage(launch.peers, launch.places, launch.num_selected, launch.width)) {
    launch_staged_combine(launch, context);
  } else {
    launch_read_combine(launch, context);
  }
}

std::span<const CudaVariant<ops::Dispatch>> dispatch_variants() {
  static constexpr std::array<CudaVariant<ops::Dispatch>, 1> kVariants{
      {{.name = BALEEN_ARCH_NAME "/peers", .run = dispatch, .why_not = why_not_dispatch}}};
  return kVariants;
}

std::span<const CudaVariant<ops::Combine>> combine_variants() {
  static constexpr std::array<CudaVariant<ops::Combine>, 1> kVariants{
      {{.name = BALEEN_ARCH_NAME "/peers", .run = combine, .why_not = why_not_combine}}};
  return kVariants;
}

std::span<const CudaVariant<ops::Dispatch>> nccl_dispatch_variants() {
  static constexpr std::array<CudaVariant<ops::Dispatch>, 1> kVariants{
      {{.name = BALEEN_ARCH_NAME "/nccl", .run = nccl_dispatch, .why_not = why_not_nccl_dispatch}}};
  return kVariants;
}

std::span<const CudaVariant<ops::Combine>> nccl_combine_variants() {
  static constexpr std::array<CudaVariant<ops::Combine>, 1> kVariants{
      {{.name = BALEEN_ARCH_NAME "/nccl", .run = nccl_combine, .why_not = why_not_combine}}};
  return kVariants;
}

}  // namespace baleen::BALEEN_ARCH
