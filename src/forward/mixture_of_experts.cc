#include "forward/mixture_of_experts.h"

#include <cmath>
#include <vector>

#include "ops/operations.h"

namespace baleen {

MixtureOfExperts::MixtureOfExperts(const PassContext& context, ActivationArrays& arrays,
                                   MessageArrays& messages, const Activations<2>& sums)
    : context_(context),
      router_(context, arrays),
      messages_(ExpertMessages(context.rank, context.layout, messages)),
      sums_(sums) {}

void MixtureOfExperts::cut(std::int64_t first) {
  const std::int64_t chosen = context_.config.num_experts_per_tok;
  router_.cut(first);
  messages_.cut(first, context_.layout.most_arriving_rows(first, chosen));
}

void MixtureOfExperts::begin(const Pass& pass) {
  ExpertStore* const store = store_of(pass);
  if (copies_for(pass, store)) store->begin_pass(pass.begin, pass.end);
}

void MixtureOfExperts::run(std::int64_t block, const Pass& pass, const HalfBlock& half) {
  const ExpertTransportTraits& transport = context_.layout.expert_transport();
  ExpertStore* const store = store_of(pass);
  ExpertsArgs call = choose(block, pass, half, store);
  if (expected_load_) call.hints.expected = expected_load_(block, pass.num_rows());
  if (transport.for_one_rank) {
    context_.device.execute<ops::Experts>(call);
  } else {
    const ExpertRanks placement = place(call, block);
    if (!transport.way) {
      add_up_sums(call);
    } else if (transport.adds_sums) {
      gather_tokens({call, placement}, pass);
    } else {
      exchange_assignments({call, placement}, pass);
    }
  }
  if (copies_for(pass, store)) store->leave(block);
}

ExpertsArgs MixtureOfExperts::choose(std::int64_t block, const Pass& pass, const HalfBlock& half,
                                     ExpertStore* store) {
  const MoeWeights& weights = context_.weights.block(block).moe;
  const std::int64_t num_rows = pass.num_kept();
  const Activations<2> x = rows(half.u, num_rows);
  const Routing routing = router_.choose(block, pass, x, store);
  const bool copied = copies_for(pass, store);
  if (copied) store->arrive(block);
  return {.x = x,
          .x_fp8 = half.u_fp8,
          .ids = routing.ids,
          .weights = routing.weights,
          .routed = weights.routed,
          .places = copied ? store->copied_places(block) : weights.places,
          .shared = weights.has_shared ? &weights.shared : nullptr,
          .swiglu_limit = static_cast<float>(context_.config.swiglu_limit),
          .precision = context_.precision,
          .out = rows(half.f, num_rows),
          .sums = expert_sums_,
          .hints = {.next = routing.next}};
}

ExpertRanks MixtureOfExperts::place(ExpertsArgs& call, std::int64_t block) const {
  const MoeWeights& weights = context_.weights.block(block).moe;
  const ExpertRanks placement = context_.layout.experts(context_.rank.num_routed_experts(block),
                                                        weights.map.get(), weights.map_table.data());
  call.first_expert = placement.first_expert();
  call.split.routed = context_.layout.plan().moe_tp > 1;
  return placement;
}

/// Its share of the inner width, or all of it on the first rank, whose term is enough.
void MixtureOfExperts::share_expert(ExpertsArgs& call) const {
  call.split.shared = call.shared != nullptr && call.shared->w1.rows != context_.config.moe_intermediate_size;
  if (!call.split.shared && context_.layout.stage_ranks().place > 0) call.shared = nullptr;
}

/// Every rank has all tokens and adds up the outputs of its own experts; then all ranks add up what they
/// have.
void MixtureOfExperts::add_up_sums(ExpertsArgs call) {
  const Activations<2> out = call.out;
  const Activations<2> sums = rows(sums_, call.x.extent(0));
  share_expert(call);
  call.partial_sums = true;
  call.out = sums;
  context_.device.execute<ops::Experts>(call);
  context_.device.execute<ops::AllReduce>(
      {.group = &context_.layout.stage_ranks(), .x = sums, .precision = context_.precision, .y = out});
}

RowRange MixtureOfExperts::dispatched_rows(const ExpertsArgs& call, const Pass& pass) const {
  if (context_.layout.plan().shares_rows()) return {0, call.x.extent(0)};
  return pass.shares.dispatched();
}

DispatchArgs MixtureOfExperts::dispatch_of(const Exchange& exchange, const Pass& pass) {
  const auto& [call, placement] = exchange;
  const RankLayout& layout = context_.layout;
  const RowRange own = dispatched_rows(call, pass);
  const DispatchWay way = *layout.expert_transport().way;
  const bool sends_fp8 =
      activation_rounding(call.routed.front().w1, context_.precision) == ActivationRounding::kFp8;
  ExpertMessages& messages = messages_.of(pass);
  if (call.hints.expected) {
    DispatchedRows& received = messages.received;
    received.rows_from.assign(static_cast<std::size_t>(placement.stage->size()), own.size());
    received.num_rows = way == DispatchWay::kGatheredTokens ? placement.stage->size() * own.size()
                                                            : std::llround(call.hints.expected->assignments);
  }
  return {.placement = placement,
          .x = call.x.slice(own.begin, own.end),
          .x_fp8 = layout.plan().shares_rows() ? call.x_fp8 : Fp8Rows(),
          .sends_fp8 = sends_fp8,
          .ids = {call.ids.data() + own.begin * call.ids.extent(1), {own.size(), call.ids.extent(1)}},
          .weights = call.weights.slice(own.begin, own.end),
          .way = way,
          .arrived = messages.arrived,
          .arrived_fp8 = messages.arrived_fp8,
          .arrived_ids = messages.arrived_ids,
          .arrived_weights = messages.arrived_weights,
          .received = &messages.received,
          .row_parts = layout.plan().group_ranks()};
}

/// What a dispatch brought, as the arguments of its experts.
ExpertsArgs MixtureOfExperts::arrived_of(const Exchange& exchange, const Pass& pass) {
  const ExpertMessages& messages = messages_.of(pass);
  const std::int64_t num_rows = messages.received.num_rows;
  ExpertsArgs arrived = exchange.call;
  arrived.x = rows(messages.arrived, num_rows);
  arrived.x_fp8 = messages.arrived_fp8;  // none of rows that are gathered as they are
  arrived.ids = rows(messages.arrived_ids, num_rows);
  arrived.weights = rows(messages.arrived_weights, num_rows);
  return arrived;
}

/// All tokens of the stage come to every rank, which adds up the outputs of its own experts; then each rank
/// gets the sums of its tokens.
void MixtureOfExperts::gather_tokens(const Exchange& exchange, const Pass& pass) {
  context_.device.execute<ops::Dispatch>(dispatch_of(exchange, pass));
  ExpertsArgs all = arrived_of(exchange, pass);
  const Activations<2> sums = rows(sums_, all.x.extent(0));
  share_expert(all);
  all.partial_sums = true;
  all.out = sums;
  context_.device.execute<ops::Experts>(all);
  std::vector<RowRange> shares;  // of the ranks of the stage
  std::int64_t begin = 0;
  for (const std::int64_t count : messages_.of(pass).received.rows_from) {
    shares.push_back({begin, begin + count});
    begin += count;
  }
  const Activations<2>& out = exchange.call.out;
  const RowRange own = dispatched_rows(exchange.call, pass);
  context_.device.execute<ops::ReduceScatter>({.group = exchange.placement.stage,
                                               .x = sums,
                                               .rows = shares,
                                               .precision = context_.precision,
                                               .y = out.slice(own.begin, own.end)});
  gather_dispatched(out, pass);
}

/// Assignments arrive at the ranks of their experts, whose outputs return; the owner of a token adds them up
/// in the order of one rank.
void MixtureOfExperts::exchange_assignments(const Exchange& exchange, const Pass& pass) {
  const std::int64_t places = fused_places(exchange.call);
  if (places > 0) {
    messages_.of(pass).received.num_rows = exchange.placement.stage->size() * places;  // whatever arrives
    context_.device.execute<ops::Dispatch, ops::Experts, ops::Experts, ops::Combine>(
        dispatch_of(exchange, pass), routed_of(exchange, pass), shared_of(exchange, pass),
        combine_of(exchange, pass));
  } else {
    const auto send = [&] { context_.device.execute<ops::Dispatch>(dispatch_of(exchange, pass)); };
    if (const PostedMessages& posted = context_.device.traits().posted;
        exchange.call.x.extent(0) >= posted.least_rows) {
      post(pass, posted.dispatch_units, send);
    } else {
      send();
    }
    run_arrived(exchange, pass);
    context_.device.execute<ops::Combine>(combine_of(exchange, pass));
  }
  gather_dispatched(exchange.call.out, pass);
}

MixtureOfExperts::Exchange MixtureOfExperts::post_dispatch(std::int64_t block, const Pass& pass,
                                                           const HalfBlock& half) {
  Exchange exchange{.call = choose(block, pass, half, nullptr), .placement = {}};
  exchange.placement = place(exchange.call, block);
  post(pass, context_.device.traits().posted.half_step_units,
       [&] { context_.device.execute<ops::Dispatch>(dispatch_of(exchange, pass)); });
  return exchange;
}

void MixtureOfExperts::post_combine(const Exchange& exchange, const Pass& pass) {
  run_arrived(exchange, pass);
  post(pass, context_.device.traits().posted.half_step_units,
       [&] { context_.device.execute<ops::Combine>(combine_of(exchange, pass)); });
}

void MixtureOfExperts::join(const Pass& pass) { context_.device.messages().join(pass.micro_batch); }

void MixtureOfExperts::post(const Pass& pass, int num_units, const std::function<void()>& messages) {
  context_.device.messages().post(pass.micro_batch, num_units, messages);
}

/// The shared expert needs nothing from others: it runs while tokens arrive.
void MixtureOfExperts::run_arrived(const Exchange& exchange, const Pass& pass) {
  if (exchange.call.shared != nullptr) context_.device.execute<ops::Experts>(shared_of(exchange, pass));
  join(pass);
  context_.device.execute<ops::Experts>(routed_of(exchange, pass));
}

ExpertsArgs MixtureOfExperts::shared_of(const Exchange& exchange, const Pass& pass) {
  const DispatchArgs sent = dispatch_of(exchange, pass);
  const std::int64_t num_rows = sent.x.extent(0);
  ExpertsArgs shared = exchange.call;
  shared.x = sent.x;
  shared.x_fp8 = sent.x_fp8;
  shared.ids = {sent.ids.data(), {num_rows, 0}};
  shared.weights = {};
  shared.places = {};
  shared.out = rows(messages_.of(pass).shared, num_rows);
  if (exchange.call.hints.expected) shared.hints.expected = ExpertLoad();
  return shared;
}

ExpertsArgs MixtureOfExperts::routed_of(const Exchange& exchange, const Pass& pass) {
  ExpertsArgs routed = arrived_of(exchange, pass);
  routed.shared = nullptr;
  routed.out = rows(messages_.of(pass).outputs, routed.x.extent(0));
  routed.partial_sums = exchange.call.split.routed;
  routed.hints.chosen_per_token = exchange.call.ids.extent(1);
  return routed;
}

CombineArgs MixtureOfExperts::combine_of(const Exchange& exchange, const Pass& pass) {
  const ExpertMessages& messages = messages_.of(pass);
  const DispatchArgs sent = dispatch_of(exchange, pass);
  const RowRange own = dispatched_rows(exchange.call, pass);
  return {.placement = exchange.placement,
          .y = rows(messages.outputs, messages.received.num_rows),
          .received = &messages.received,
          .ids = sent.ids,
          .shared = exchange.call.shared == nullptr ? Activations<2>() : rows(messages.shared, own.size()),
          .precision = context_.precision,
          .way = sent.way,
          .out = exchange.call.out.slice(own.begin, own.end)};
}

std::int64_t MixtureOfExperts::fused_places(const ExpertsArgs& call) const {
  const Device& device = context_.device;
  if (!expert_transport(context_.layout.plan(), device.traits()).fuses || call.shared == nullptr) return 0;
  const std::int64_t parts = context_.layout.plan().group_ranks();
  return (context_.device.batches().most_rows() + parts - 1) / parts * call.ids.extent(1);
}

/// Ranks of a group with the same tokens dispatched a part of them each.
void MixtureOfExperts::gather_dispatched(const Activations<2>& out, const Pass& pass) {
  const ParallelPlan& plan = context_.layout.plan();
  if (!plan.shares_rows() && plan.group_ranks() > 1)
    gather_rows_of_group(context_, out, pass.shares.dispatched_by_rank());
}

}  // namespace baleen
