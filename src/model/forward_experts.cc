// The second half of a block: router and experts, on one rank, on ranks with the same tokens, and on ranks
// with tokens of their own.

#include <cmath>

#include "model/forward.h"
#include "ops/operations.h"

namespace baleen {
namespace {

RouteScoring scoring_of(ScoringFunc scoring) {
  switch (scoring) {
    case ScoringFunc::kSqrtSoftplus:
      return RouteScoring::kSqrtSoftplus;
    case ScoringFunc::kSigmoid:
      return RouteScoring::kSigmoid;
    case ScoringFunc::kSoftmax:
      return RouteScoring::kSoftmax;
  }
  return RouteScoring::kSqrtSoftplus;
}

}  // namespace

void Forward::moe(std::int64_t block, const Step& step) {
  const MoeWeights& weights = weights_.block(block).moe;
  const BlockValues& values = buffers_.block(block);
  const std::int64_t num_rows = kept_rows().size();
  const Activations<2> x = rows(values.experts.u, num_rows);
  const Activations<2> logits = rows(values.router_logits, num_rows);
  const View<std::int32_t, 2> ids = rows(values.expert_ids, num_rows);
  const Activations<2> routing_weights = rows(values.expert_weights, num_rows);
  const LinearOutput gate{&weights.gate, logits, true, "gate"};
  device_.execute<ops::Linear>({.x = x, .outputs = {&gate, 1}, .precision = precision_});
  device_.execute<ops::Route>(
      {.logits = logits,
       .scoring = scoring_of(config_.scoring_func),
       .normalise = config_.scoring_func != ScoringFunc::kSoftmax && config_.norm_topk_prob,
       .scale = static_cast<float>(config_.routed_scaling_factor),
       .bias = weights.bias,
       .hash_table = weights.hash_table,
       .tokens = kept_tokens(step),
       .num_groups = static_cast<int>(config_.n_group),
       .num_groups_kept = static_cast<int>(config_.topk_group),
       .ids = ids,
       .weights = routing_weights,
       .load = load_counts(block)});
  const bool copied = experts_ != nullptr && experts_->copies_for(num_rows);
  if (copied) experts_->arrive(block);
  run_experts({.x = x,
               .x_fp8 = values.experts.u_fp8,
               .ids = ids,
               .weights = routing_weights,
               .routed = weights.routed,
               .places = copied ? experts_->copied_places(block) : weights.places,
               .shared = weights.has_shared ? &weights.shared : nullptr,
               .swiglu_limit = static_cast<float>(config_.swiglu_limit),
               .precision = precision_,
               .out = rows(values.experts.f, num_rows)},
              block);
  if (copied) experts_->leave(block);
}

std::span<std::int64_t> Forward::load_counts(std::int64_t block) const {
  if (observer_ != nullptr) return {};
  const std::int64_t num_experts = config_.n_routed_experts;
  return {buffers_.expert_load + block * num_experts, static_cast<std::size_t>(num_experts)};
}

void Forward::run_experts(ExpertsArgs call, std::int64_t block) {
  if (expected_load_) call.expected = expected_load_(block, num_rows_);
  if (layout_.stage_ranks().size() == 1) {
    device_.execute<ops::Experts>(call);
    return;
  }
  const ExpertRanks placement = layout_.experts(weights_.block(block).moe.map.get());
  call.first_expert = placement.first_expert();
  call.routed_is_split = layout_.plan().moe_tp > 1;
  if (layout_.adds_up_experts()) {
    add_up_experts(call);
  } else {
    exchange_experts(call, placement);
  }
}

/// Every rank has all tokens and adds up the outputs of its own experts; then all ranks add up what they
/// have.
void Forward::add_up_experts(ExpertsArgs call) {
  const Activations<2> out = call.out;
  const Activations<2> sums = rows(messages_.sums, call.x.extent(0));
  call.shared_is_split = call.shared != nullptr && call.shared->w1.rows != config_.moe_intermediate_size;
  if (!call.shared_is_split && layout_.group_index() > 0) call.shared = nullptr;  // one rank's term is enough
  call.partial_sums = true;
  call.out = sums;
  device_.execute<ops::Experts>(call);
  device_.execute<ops::AllReduce>(
      {.group = &layout_.stage_ranks(), .x = sums, .precision = precision_, .y = out});
}

/// Rows travel to their experts and the experts' outputs back; the owner of a token adds them up in the order
/// of one rank.
void Forward::exchange_experts(const ExpertsArgs& call, const ExpertRanks& placement) {
  const bool shares_rows = layout_.plan().shares_rows();
  const RowRange own = shares_rows ? RowRange{0, call.x.extent(0)}
                                   : dispatched_rows_[static_cast<std::size_t>(layout_.group_index())];
  const ConstActivations<2> x = call.x.slice(own.begin, own.end);
  const View<const std::int32_t, 2> ids(call.ids.data() + own.begin * call.ids.extent(1),
                                        {own.size(), call.ids.extent(1)});
  const Fp8Rows x_fp8 = shares_rows ? call.x_fp8 : Fp8Rows();
  DispatchedRows& received = messages_.received;
  if (call.expected) received.num_rows = std::llround(call.expected->assignments);
  device_.execute<ops::Dispatch>({.placement = placement,
                                  .x = x,
                                  .x_fp8 = x_fp8,
                                  .sends_fp8 = activation_rounding(call.routed.front().w1.format,
                                                                   precision_) == ActivationRounding::kFp8,
                                  .ids = ids,
                                  .weights = call.weights.slice(own.begin, own.end),
                                  .arrived = messages_.arrived,
                                  .arrived_fp8 = messages_.arrived_fp8,
                                  .arrived_ids = messages_.arrived_ids,
                                  .arrived_weights = messages_.arrived_weights,
                                  .received = &received,
                                  .row_parts = layout_.plan().group_ranks()});

  ExpertsArgs routed = call;
  routed.x = rows(messages_.arrived, received.num_rows);
  routed.x_fp8 = messages_.arrived_fp8;
  routed.ids = rows(messages_.arrived_ids, received.num_rows);
  routed.weights = rows(messages_.arrived_weights, received.num_rows);
  routed.shared = nullptr;
  routed.out = rows(messages_.outputs, received.num_rows);
  routed.partial_sums = call.routed_is_split;
  routed.chosen_per_token = call.ids.extent(1);
  device_.execute<ops::Experts>(routed);

  Activations<2> shared_out;
  if (call.shared != nullptr) {
    shared_out = rows(messages_.shared, own.size());
    ExpertsArgs shared = call;
    shared.x = x;
    shared.x_fp8 = x_fp8;
    shared.ids = {ids.data(), {own.size(), 0}};
    shared.weights = {};
    shared.out = shared_out;
    if (call.expected) shared.expected = ExpertLoad();
    device_.execute<ops::Experts>(shared);
  }
  device_.execute<ops::Combine>({.placement = placement,
                                 .y = routed.out,
                                 .received = &received,
                                 .ids = ids,
                                 .shared = shared_out,
                                 .precision = precision_,
                                 .out = call.out.slice(own.begin, own.end)});
  if (!shares_rows && layout_.plan().tp > 1) gather_rows_of(call.out, dispatched_rows_);
}

}  // namespace baleen
