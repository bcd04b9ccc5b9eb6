// The second half of a block: router and experts, on one rank and over ranks by each transport
// (model/expert_transport).

#include <array>
#include <cmath>

#include "forward/forward.h"
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

RouteArgs Forward::route_of(std::int64_t block, const Step& step) const {
  const MoeWeights& weights = weights_.block(block).moe;
  return {.scoring = scoring_of(config_.scoring_func),
          .normalise = config_.scoring_func != ScoringFunc::kSoftmax && config_.norm_topk_prob,
          .scale = static_cast<float>(config_.routed_scaling_factor),
          .bias = weights.bias,
          .hash_table = weights.hash_table,
          .tokens = kept_tokens(step),
          .first_row = kept_rows().begin,
          .num_groups = static_cast<int>(config_.n_group),
          .num_groups_kept = static_cast<int>(config_.topk_group)};
}

void Forward::moe(std::int64_t block, const Step& step, bool is_last) {
  run_experts(choose_experts(block, step, is_last), block);
  if (experts_ != nullptr && experts_->copies_for(num_rows_)) experts_->leave(block);
}

ExpertsArgs Forward::choose_experts(std::int64_t block, const Step& step, bool is_last) {
  const MoeWeights& weights = weights_.block(block).moe;
  const BlockValues& values = buffers_.block;
  const std::int64_t num_rows = kept_rows().size();
  const Activations<2> x = rows(values.experts.u, num_rows);
  const Activations<2> logits = rows(values.router_logits, num_rows);
  const View<std::int32_t, 2> ids = rows(values.expert_ids, num_rows);
  const Activations<2> routing_weights = rows(values.expert_weights, num_rows);
  // A rank that gets rows of others does not see what these will choose.
  const bool guesses =
      experts_ != nullptr && experts_->guesses_for(num_rows) && !layout_.expert_transport().way;
  // The next block's gate over this block's input. A table needs no logits: any will do.
  const bool guesses_next = guesses && !is_last;
  const bool next_is_hashed = guesses_next && !weights_.block(block + 1).moe.hash_table.empty();
  const Activations<2> next_logits =
      guesses_next && !next_is_hashed ? experts_->guesses().logits(num_rows) : logits;
  std::array<LinearOutput, 2> gates{LinearOutput{&weights.gate, logits, true, "gate"}, LinearOutput{}};
  std::size_t num_gates = 1;
  if (guesses_next && !next_is_hashed)
    gates[num_gates++] = {&weights_.block(block + 1).moe.gate, next_logits, true, "next gate"};
  device_.execute<ops::Linear>(
      {.x = x, .outputs = std::span(gates).first(num_gates), .precision = precision_});
  RouteArgs route = route_of(block, step);
  route.logits = logits;
  route.ids = ids;
  route.weights = routing_weights;
  route.load = load_counts(block);
  if (guesses) route.routed = experts_->routed();
  device_.execute<ops::Route>(route);
  ExpertGuess next;
  if (guesses_next) {
    RouteArgs guess = route_of(block + 1, step);
    guess.logits = next_logits;
    guess.ids = experts_->guesses().ids(block + 1, num_rows);
    guess.weights = experts_->guesses().weights(num_rows);
    device_.execute<ops::Route>(guess);
    next = {.ids = guess.ids, .places = weights_.block(block + 1).moe.places};
  }
  const bool copied = experts_ != nullptr && experts_->copies_for(num_rows_);
  if (copied) experts_->arrive(block);
  return {.x = x,
          .x_fp8 = values.experts.u_fp8,
          .x_is_settled = true,
          .ids = ids,
          .weights = routing_weights,
          .routed = weights.routed,
          .places = copied ? experts_->copied_places(block) : weights.places,
          .next = next,
          .shared = weights.has_shared ? &weights.shared : nullptr,
          .swiglu_limit = static_cast<float>(config_.swiglu_limit),
          .precision = precision_,
          .out = rows(values.experts.f, num_rows)};
}

std::span<std::int64_t> Forward::load_counts(std::int64_t block) const {
  if (observer_ != nullptr) return {};
  const std::int64_t num_experts = config_.n_routed_experts;
  return {buffers_.expert_load + block * num_experts, static_cast<std::size_t>(num_experts)};
}

void Forward::run_experts(ExpertsArgs call, std::int64_t block) {
  if (expected_load_) call.expected = expected_load_(block, num_rows_);
  const ExpertTransportTraits& transport = layout_.expert_transport();
  if (transport.for_one_rank) {
    device_.execute<ops::Experts>(call);
    return;
  }
  const ExpertRanks placement = place_experts(call, block);
  if (!transport.way) {
    add_up_experts(call);
  } else if (transport.adds_sums) {
    gather_experts(call, placement);
  } else {
    exchange_experts({call, placement});
  }
}

ExpertRanks Forward::place_experts(ExpertsArgs& call, std::int64_t block) const {
  const MoeWeights& weights = weights_.block(block).moe;
  const ExpertRanks placement = layout_.experts(weights.map.get(), weights.map_table.data());
  call.first_expert = placement.first_expert();
  call.routed_is_split = layout_.plan().moe_tp > 1;
  return placement;
}

/// The part of the shared expert that this rank adds to float32 sums of tokens that all ranks have: its share
/// of the inner width, or all of it on the first rank, whose term is enough.
void Forward::share_expert(ExpertsArgs& call) const {
  call.shared_is_split = call.shared != nullptr && call.shared->w1.rows != config_.moe_intermediate_size;
  if (!call.shared_is_split && layout_.stage_ranks().place > 0) call.shared = nullptr;
}

/// Every rank has all tokens and adds up the outputs of its own experts; then all ranks add up what they
/// have.
void Forward::add_up_experts(ExpertsArgs call) {
  const Activations<2> out = call.out;
  const Activations<2> sums = rows(messages_.sums, call.x.extent(0));
  share_expert(call);
  call.partial_sums = true;
  call.out = sums;
  device_.execute<ops::Experts>(call);
  device_.execute<ops::AllReduce>(
      {.group = &layout_.stage_ranks(), .x = sums, .precision = precision_, .y = out});
}

RowRange Forward::dispatched_rows(const ExpertsArgs& call) const {
  if (layout_.plan().shares_rows()) return {0, call.x.extent(0)};
  return dispatched_rows_[static_cast<std::size_t>(layout_.group_index())];
}

DispatchArgs Forward::dispatch_of(const ExpertsArgs& call, const ExpertRanks& placement) {
  const RowRange own = dispatched_rows(call);
  const DispatchWay way = *layout_.expert_transport().way;
  DispatchedRows& received = messages_.received;
  if (call.expected) {
    received.rows_from.assign(static_cast<std::size_t>(placement.stage->size()), own.size());
    received.num_rows = way == DispatchWay::kGatheredTokens ? placement.stage->size() * own.size()
                                                            : std::llround(call.expected->assignments);
  }
  return {
      .placement = placement,
      .x = call.x.slice(own.begin, own.end),
      .x_fp8 = layout_.plan().shares_rows() ? call.x_fp8 : Fp8Rows(),
      .sends_fp8 = activation_rounding(call.routed.front().w1.format, precision_) == ActivationRounding::kFp8,
      .ids = {call.ids.data() + own.begin * call.ids.extent(1), {own.size(), call.ids.extent(1)}},
      .weights = call.weights.slice(own.begin, own.end),
      .way = way,
      .arrived = messages_.arrived,
      .arrived_fp8 = messages_.arrived_fp8,
      .arrived_ids = messages_.arrived_ids,
      .arrived_weights = messages_.arrived_weights,
      .received = &received,
      .row_parts = layout_.plan().group_ranks()};
}

ExpertsArgs Forward::arrived_of(const ExpertsArgs& call) {
  const std::int64_t num_rows = messages_.received.num_rows;
  ExpertsArgs arrived = call;
  arrived.x = rows(messages_.arrived, num_rows);
  arrived.x_fp8 = messages_.arrived_fp8;  // none of rows that are gathered as they are
  arrived.x_is_settled = false;
  arrived.ids = rows(messages_.arrived_ids, num_rows);
  arrived.weights = rows(messages_.arrived_weights, num_rows);
  return arrived;
}

/// All tokens of the stage come to every rank, which adds up the outputs of its own experts; then each rank
/// gets the sums of its tokens.
void Forward::gather_experts(const ExpertsArgs& call, const ExpertRanks& placement) {
  const DispatchArgs dispatch = dispatch_of(call, placement);
  device_.execute<ops::Dispatch>(dispatch);
  ExpertsArgs all = arrived_of(call);
  const Activations<2> sums = rows(messages_.sums, all.x.extent(0));
  share_expert(all);
  all.partial_sums = true;
  all.out = sums;
  device_.execute<ops::Experts>(all);
  token_shares_.clear();
  std::int64_t begin = 0;
  for (const std::int64_t count : messages_.received.rows_from) {
    token_shares_.push_back({begin, begin + count});
    begin += count;
  }
  const RowRange own = dispatched_rows(call);
  device_.execute<ops::ReduceScatter>({.group = placement.stage,
                                       .x = sums,
                                       .rows = token_shares_,
                                       .precision = precision_,
                                       .y = call.out.slice(own.begin, own.end)});
  gather_dispatched(call.out);
}

/// Assignments arrive at the ranks of their experts, whose outputs return; the owner of a token adds them up
/// in the order of one rank.
void Forward::exchange_experts(const Exchange& exchange) {
  const std::int64_t places = fused_places(exchange.call);
  if (places > 0) {
    messages_.received.num_rows = exchange.placement.stage->size() * places;  // whatever arrives
    device_.execute<ops::Dispatch, ops::Experts, ops::Experts, ops::Combine>(
        dispatch_of(exchange.call, exchange.placement), routed_of(exchange), shared_of(exchange),
        combine_of(exchange));
  } else {
    const auto send = [&] { device_.execute<ops::Dispatch>(dispatch_of(exchange.call, exchange.placement)); };
    if (const PostedMessages& posted = device_.traits().posted;
        exchange.call.x.extent(0) >= posted.least_rows) {
      device_.messages().post(post_number_, posted.dispatch_units, send);
    } else {
      send();
    }
    run_arrived(exchange);
    device_.execute<ops::Combine>(combine_of(exchange));
  }
  gather_dispatched(exchange.call.out);
}

/// The shared expert needs nothing from others: it runs while tokens arrive.
void Forward::run_arrived(const Exchange& exchange) {
  if (exchange.call.shared != nullptr) device_.execute<ops::Experts>(shared_of(exchange));
  device_.messages().join(post_number_);
  device_.execute<ops::Experts>(routed_of(exchange));
}

ExpertsArgs Forward::shared_of(const Exchange& exchange) {
  const DispatchArgs sent = dispatch_of(exchange.call, exchange.placement);
  const std::int64_t num_rows = sent.x.extent(0);
  ExpertsArgs shared = exchange.call;
  shared.x = sent.x;
  shared.x_fp8 = sent.x_fp8;
  shared.ids = {sent.ids.data(), {num_rows, 0}};
  shared.weights = {};
  shared.places = {};
  shared.out = rows(messages_.shared, num_rows);
  if (exchange.call.expected) shared.expected = ExpertLoad();
  return shared;
}

ExpertsArgs Forward::routed_of(const Exchange& exchange) {
  ExpertsArgs routed = arrived_of(exchange.call);
  routed.shared = nullptr;
  routed.out = rows(messages_.outputs, routed.x.extent(0));
  routed.partial_sums = exchange.call.routed_is_split;
  routed.chosen_per_token = exchange.call.ids.extent(1);
  return routed;
}

CombineArgs Forward::combine_of(const Exchange& exchange) {
  const DispatchArgs sent = dispatch_of(exchange.call, exchange.placement);
  const RowRange own = dispatched_rows(exchange.call);
  return {.placement = exchange.placement,
          .y = rows(messages_.outputs, messages_.received.num_rows),
          .received = &messages_.received,
          .ids = sent.ids,
          .shared = exchange.call.shared == nullptr ? Activations<2>() : rows(messages_.shared, own.size()),
          .precision = precision_,
          .way = sent.way,
          .out = exchange.call.out.slice(own.begin, own.end)};
}

std::int64_t Forward::fused_places(const ExpertsArgs& call) const {
  if (!expert_transport(layout_.plan(), device_.traits()).fuses || call.shared == nullptr) return 0;
  const std::int64_t parts = layout_.plan().group_ranks();
  return (device_.batches().most_rows() + parts - 1) / parts * call.ids.extent(1);
}

/// Ranks of a group with the same tokens dispatched a part of them each.
void Forward::gather_dispatched(const Activations<2>& out) {
  if (!layout_.plan().shares_rows() && layout_.plan().group_ranks() > 1)
    gather_rows_of(out, dispatched_rows_);
}

}  // namespace baleen
