/// A layer's experts over ranks on GPUs that are threads of a program: what one rank calls, one operation
/// after the other or all at once.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ops/experts/sm90/experts.h"
#include "ops/fused_experts/sm90/fused_experts.h"
#include "tests/support/test_cuda.h"

namespace baleen::test {

/// Of all ranks, but for the weights, which are those of one.
struct ExchangedLayer {
  std::span<const ExpertWeights> slots;  ///< in the device's memory
  const ExpertWeights* shared = nullptr;
  std::int64_t num_experts = 0;
  const ExpertMap* map = nullptr;  ///< null: linear
};

/// One rank's, on the host.
struct ExchangedTokens {
  std::int64_t count = 0, selected = 0;
  std::span<const float> x;           ///< [count, width]
  std::span<const std::int32_t> ids;  ///< [count, selected]
  std::span<const float> weights;
};

/// Arguments of one rank for its tokens, with arrays for what arrives. `stage` outlives it.
class RankCall {
 public:
  RankCall(TestCuda& cuda, const RankGroup& stage, const ExchangedLayer& layer, const ExchangedTokens& tokens,
           std::int64_t most_tokens)
      : cuda_(cuda), most_tokens_(most_tokens) {
    const std::int64_t width = layer.shared->w1.cols, chosen = tokens.selected, count = tokens.count;
    const std::int64_t room = stage.size() * most_tokens * chosen, stride = (room + 3) / 4 * 4;
    const ExpertRanks placement{.stage = &stage,
                                .ep = stage.size(),
                                .num_experts = layer.num_experts,
                                .map = layer.map,
                                .table = layer.map != nullptr ? cuda.upload(layer.map->table()) : nullptr};
    const View<const std::int32_t, 2> ids(cuda.upload(tokens.ids), {count, chosen});
    const View<const Bf16Bits, 2> x(cuda.upload_bf16(tokens.x), {count, width});
    const auto rows = [&](std::int64_t num_rows) {
      return View<Bf16Bits, 2>(cuda.allocate<Bf16Bits>(num_rows * width), {num_rows, width});
    };
    dispatch_ = {.placement = placement,
                 .x = x,
                 .ids = ids,
                 .weights = ConstActivations<2>(cuda.upload(tokens.weights), {count, chosen}),
                 .arrived = rows(room),
                 .arrived_fp8 = {cuda.allocate<std::uint8_t>(room * width),
                                 cuda.allocate<float>(width / 128 * stride), stride},
                 .arrived_ids = {cuda.allocate<std::int32_t>(room), {room, 1}},
                 .arrived_weights = {cuda.allocate<float>(room), {room, 1}},
                 .received = &received_};
    routed_ = {.x = dispatch_.arrived,
               .x_fp8 = dispatch_.arrived_fp8,
               .ids = dispatch_.arrived_ids,
               .weights = dispatch_.arrived_weights,
               .routed = layer.slots,
               .swiglu_limit = 10.0F,
               .out = rows(room),
               .first_expert = placement.first_expert(),
               .hints = {.chosen_per_token = chosen}};
    shared_ = routed_;
    shared_.x = x;
    shared_.x_fp8 = {};
    shared_.ids = {ids.data(), {count, 0}};
    shared_.weights = {};
    shared_.shared = layer.shared;
    shared_.out = rows(count);
    combine_ = {.placement = placement,
                .y = routed_.out,
                .received = &received_,
                .ids = ids,
                .shared = shared_.out,
                .out = rows(count)};
  }
  RankCall(const RankCall&) = delete;
  RankCall& operator=(const RankCall&) = delete;

  /// Outputs go to an array of their own from now on, poison until they are written.
  Bf16Bits* renew_out() {
    const std::int64_t count = combine_.out.extent(0), width = combine_.out.extent(1);
    auto* const out = cuda_.allocate<Bf16Bits>(count * width);
    combine_.out = View<Bf16Bits, 2>(out, {count, width});
    return out;
  }
  void one_by_one() {
    cuda_.context().most_rows = most_tokens_;
    sm90::dispatch(dispatch_, cuda_.context());
    sm90::experts(routed_, cuda_.context());
    sm90::experts(shared_, cuda_.context());
    sm90::combine(combine_, cuda_.context());
  }
  void fused() {
    cuda_.context().most_rows = most_tokens_;
    sm90::fused_experts(dispatch_, routed_, shared_, combine_, cuda_.context());
  }
  /// With so many multiprocessors, also where ranks share a GPU.
  void at_once(int num_sms) {
    cuda_.context().most_rows = most_tokens_;
    const int all = std::exchange(cuda_.context().num_sms, num_sms);
    sm90::fused_experts_at_once(dispatch_, routed_, shared_, combine_, cuda_.context());
    cuda_.context().num_sms = all;
  }
  [[nodiscard]] std::optional<Reason> why_not_fused() const {
    return sm90::fused_experts_variants().back().why_not(dispatch_, routed_, shared_, combine_, {});
  }
  [[nodiscard]] std::vector<float> download(const Bf16Bits* out) const {
    return cuda_.download_bf16(out, combine_.out.extent(0) * combine_.out.extent(1));
  }

 private:
  TestCuda& cuda_;
  std::int64_t most_tokens_;
  DispatchedRows received_;
  DispatchArgs dispatch_;
  ExpertsArgs routed_, shared_;
  CombineArgs combine_;
};

}  // namespace baleen::test
