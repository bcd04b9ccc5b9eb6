#include "ops/dispatch/sm90/dispatch.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "comm/peer/peer_memory.h"
#include "numeric/block_scale.h"
#include "ops/collectives/sm90/collectives.h"

namespace baleen::sm90 {
namespace {

constexpr Reason kSplit = "takes whole experts; these are split over ranks";

std::optional<Reason> why_not_dispatch(const DispatchArgs& args, const DeviceTraits& /*traits*/) {
  if (args.way != DispatchWay::kAssignments)
    return "sends each assignment by itself; these rows are gathered";
  if (args.placement.moe_tp() > 1) return kSplit;
  if (args.x.extent(1) % kActivationBlock != 0) return "moves rows in blocks of 128 values";
  return std::nullopt;
}

std::optional<Reason> why_not_combine(const CombineArgs& args, const DeviceTraits& /*traits*/) {
  if (args.placement.moe_tp() > 1) return kSplit;
  if (args.out.extent(1) % 8 != 0) return "adds 8 values at a time";
  if (args.ids.extent(1) > kMaxSelected) return "has room for at most 16 experts of a token";
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

void dispatch(const DispatchArgs& args, CudaContext& context) {
  const PeerRank& peers = peers_of(context, ops::Dispatch::kName);
  const std::int64_t num_selected = args.ids.extent(1), size = args.placement.stage->size();
  const std::int64_t most_tokens = (context.most_rows + args.row_parts - 1) / args.row_parts;
  const std::int64_t places = most_tokens * num_selected;
  BALEEN_CHECK(args.x.dense() && args.ids.dense() && args.weights.dense());
  BALEEN_CHECK_LE(args.x.extent(0), most_tokens);
  BALEEN_CHECK_LE(size * places, args.arrived.extent(0));
  const PeerView view = peers.view(*args.placement.stage);
  const auto launch = can_stage(view, places, num_selected, args.x.extent(1)) ? launch_staged_dispatch
                                                                              : launch_written_dispatch;
  launch({.peers = view,
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
          .width = args.x.extent(1)},
         context);
  args.received->num_rows = size * places;
  args.received->experts = args.arrived_ids.data();
  args.received->rows_from.assign(static_cast<std::size_t>(size), places);
}

void combine(const CombineArgs& args, CudaContext& context) {
  const PeerRank& peers = peers_of(context, ops::Combine::kName);
  BALEEN_CHECK(args.precision == Precision::kReleased);
  BALEEN_CHECK(args.y.dense() && args.ids.dense() && args.out.dense());
  const std::int64_t places = args.received->rows_from.front();
  const PeerView view = peers.view(*args.placement.stage);
  const auto launch = can_stage(view, places, args.ids.extent(1), args.out.extent(1)) ? launch_staged_combine
                                                                                      : launch_read_combine;
  launch({.peers = view,
          .holders = holders_of(args.placement),
          .y = args.y.bf16().data(),
          .first_own_row = view.place * places,
          .experts = args.received->experts,
          .ids = args.ids.data(),
          .shared = args.shared.empty() ? nullptr : args.shared.bf16().data(),
          .out = args.out.bf16().data(),
          .num_tokens = static_cast<std::int32_t>(args.out.extent(0)),
          .num_selected = static_cast<std::int32_t>(args.ids.extent(1)),
          .places = static_cast<std::int32_t>(places),
          .width = args.out.extent(1)},
         context);
}

std::span<const CudaVariant<ops::Dispatch>> dispatch_variants() {
  static constexpr std::array<CudaVariant<ops::Dispatch>, 1> kVariants{
      {{.name = "sm90/peers", .run = dispatch, .why_not = why_not_dispatch}}};
  return kVariants;
}

std::span<const CudaVariant<ops::Combine>> combine_variants() {
  static constexpr std::array<CudaVariant<ops::Combine>, 1> kVariants{
      {{.name = "sm90/peers", .run = combine, .why_not = why_not_combine}}};
  return kVariants;
}

}  // namespace baleen::sm90
