#include "simulator/graph/rank_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "numeric/block_scale.h"

namespace baleen {
namespace {

/// Up to so many tokens a rank, every token-expert assignment is sent by itself to fixed places, as captured graphs need it;
/// beyond, a token travels once to each rank that has experts of it.
constexpr std::int64_t kMaxTokensByAssignment = 256;

std::string extents(const WeightMatrix& weight) {
  return fmt::format("[{} -> {}]", weight.cols, weight.rows);
}

/// The same argument over its first rows.
HcPreArgs first_rows(HcPreArgs args, std::int64_t count) {
  args.streams = args.streams.slice(0, count);
  args.u = args.u.slice(0, count);
  args.post = args.post.slice(0, count);
  args.comb = args.comb.slice(0, count);
  return args;
}
HcPostArgs first_rows(HcPostArgs args, std::int64_t count) {
  args.f = args.f.slice(0, count);
  args.post = args.post.slice(0, count);
  args.comb = args.comb.slice(0, count);
  args.streams = args.streams.slice(0, count);
  return args;
}
RmsNormArgs first_rows(RmsNormArgs args, std::int64_t count) {
  args.x = args.x.slice(0, count);
  args.y = args.y.slice(0, count);
  return args;
}

std::int64_t share_of(std::int64_t whole, std::int64_t parts) { return (whole + parts - 1) / parts; }

/// Ranks that a token's k experts lie on, of R ranks with E / R experts each, on average.
double expected_ranks(double num_experts, double num_ranks, double num_chosen) {
  double none = 1;  // of the token's experts on a given rank
  const double elsewhere = num_experts - num_experts / num_ranks;
  for (double i = 0; i < num_chosen; ++i) none *= std::max(0.0, elsewhere - i) / (num_experts - i);
  return num_ranks * (1 - none);
}

void add_message(std::vector<Collective>& messages, CollectiveKind kind, std::int64_t group_size,
                 double bytes) {
  if (group_size > 1) messages.push_back({kind, group_size, bytes});
}

}  // namespace

template <class Op>
void RankRules::add_rule(void (RankRules::*rule)(const typename Op::Args& args, RankCall& call)) {
  rules_[&kOperationInfo<Op>] = [this, rule](const void* args, RankCall& call) {
    (this->*rule)(*static_cast<const typename Op::Args*>(args), call);
  };
}

template <class Args>
const void* RankRules::keep(const Args& args) {
  return std::any_cast<Args>(&kept_.emplace_back(args));
}

RankRules::RankRules(const RankModel& model, const Workload& workload, const GraphOptions& options)
    : model_(model), plan_(model.plan()), workload_(workload), options_(options) {
  add_rule<ops::Embed>(&RankRules::embed);
  add_rule<ops::HcPre>(&RankRules::hc_pre);
  add_rule<ops::HcPost>(&RankRules::hc_post);
  add_rule<ops::HcHead>(&RankRules::hc_head);
  add_rule<ops::RmsNorm>(&RankRules::rms_norm);
  add_rule<ops::Linear>(&RankRules::linear);
  add_rule<ops::GroupedLinear>(&RankRules::grouped_linear);
  add_rule<ops::Route>(&RankRules::route);
  add_rule<ops::Experts>(&RankRules::experts);
  add_rule<ops::LmHead>(&RankRules::lm_head);
}

std::vector<RankCall> RankRules::of_rank(const OperationSequence& sequence, const void* const* args) {
  kept_.clear();
  sequence_ = &sequence;
  sequence_args_ = args;
  std::vector<RankCall> calls;
  for (std::size_t i = 0; i < sequence.parts.size(); ++i) {
    RankCall call{.operation = sequence.parts[i], .args = args[i]};
    if (const auto rule = rules_.find(call.operation); rule != rules_.end()) rule->second(args[i], call);
    calls.push_back(std::move(call));
  }
  return calls;
}

std::int64_t RankRules::kept(std::int64_t rows) const {
  return plan_.sequence_parallel ? share_of(rows, plan_.tp) : rows;
}

void RankRules::embed(const EmbedArgs& args, RankCall& call) {
  call.is_elsewhere = args.table.empty();  // of a stage that gets its streams from the one before
  const std::int64_t rows = kept(args.out.extent(0));
  call.args = keep(EmbedArgs{.tokens = args.tokens.first(static_cast<std::size_t>(rows)),
                             .table = args.table,
                             .out = args.out.slice(0, rows)});
}

void RankRules::hc_pre(const HcPreArgs& args, RankCall& call) {
  call.args = keep(first_rows(args, kept(args.u.extent(0))));
}

void RankRules::hc_post(const HcPostArgs& args, RankCall& call) {
  call.args = keep(first_rows(args, kept(args.f.extent(0))));
}

void RankRules::hc_head(const HcHeadArgs& /*args*/, RankCall& /*call*/) { block_ = -1; }

void RankRules::rms_norm(const RmsNormArgs& args, RankCall& call) {
  const OperationInfo* first = sequence_->parts.front();
  if (first == &kOperationInfo<ops::HcPre> ||
      first == &kOperationInfo<ops::HcPost>) {  // between attention and attention
    call.args = keep(first_rows(args, kept(args.x.extent(0))));
  } else if (sequence_ == &kOperationSequence<ops::RmsNorm, ops::Rope>) {
    // Tokens, whose heads are rows of the norm.
    call.num_rows = static_cast<const RopeArgs*>(sequence_args_[1])->x.extent(0);
  }
}

void RankRules::linear(const LinearArgs& args, RankCall& call) {
  std::string names;
  const MatrixPlace* first = nullptr;
  for (const LinearOutput& output : args.outputs) {
    const MatrixPlace* place = model_.place_of(output.weight);
    if (first == nullptr) first = place;
    names += fmt::format("{} {} ", place->name, extents(*output.weight));
  }
  names.pop_back();
  block_ = first->block;
  if (first->name == "wo_b") return project_output(args, call);
  call.detail = names;
  const std::int64_t num_rows = args.x.extent(0);
  if (first->name == "gate") {  // between attention and attention
    auto& gate = std::any_cast<LinearOutput&>(kept_.emplace_back(args.outputs.front()));
    const std::int64_t rows = kept(num_rows);
    gate.y = gate.y.slice(0, rows);
    call.args = keep(LinearArgs{.x = args.x.slice(0, rows), .outputs = {&gate, 1}});
    return;
  }
  if (first->name == "wq_a" && plan_.sequence_parallel) {
    add_message(call.before, CollectiveKind::kAllGather, plan_.tp,
                2.0 * static_cast<double>(kept(num_rows) * args.x.extent(1)));
  }
}

std::int64_t RankRules::output_rows(std::int64_t num_rows) const {
  return num_rows * std::max<std::int64_t>(1, plan_.o_proj_tp / plan_.tp);
}

void RankRules::grouped_linear(const GroupedLinearArgs& args, RankCall& call) {
  const ModelConfig& c = model_.config();
  const MatrixPlace* place = model_.place_of(args.weight);
  block_ = place->block;
  const std::int64_t own_rows = args.x.extent(0), num_rows = output_rows(own_rows);
  const auto head_bytes = static_cast<double>(2 * c.head_dim * own_rows);
  if (plan_.o_proj_tp > plan_.tp) {
    const auto parts = static_cast<double>(plan_.o_proj_tp);
    add_message(call.before, CollectiveKind::kAllToAll, plan_.o_proj_tp,
                head_bytes * static_cast<double>(c.num_attention_heads) * (parts - 1) / parts);
  } else if (plan_.o_proj_tp < plan_.tp) {
    add_message(call.before, CollectiveKind::kAllGather, plan_.tp / plan_.o_proj_tp,
                head_bytes * static_cast<double>(model_.rank_config().num_attention_heads));
  }
  const std::int64_t groups = c.o_groups / plan_.o_proj_tp;
  auto& weight = std::any_cast<WeightMatrix&>(kept_.emplace_back(*args.weight));
  weight.rows = groups * c.o_lora_rank;
  weight.cols = c.group_dim();
  const ElementType type = args.x.element_type();
  call.detail = fmt::format("{} {} groups {}", place->name, groups, extents(weight));
  call.args = keep(
      GroupedLinearArgs{.x = ConstActivations<3>(args.x.address(), type, {num_rows, groups, c.group_dim()}),
                        .weight = &weight,
                        .y = Activations<2>(args.y.address(), type, {num_rows, weight.rows}),
                        .precision = args.precision});
}

void RankRules::project_output(const LinearArgs& args, RankCall& call) {
  const ModelConfig& c = model_.config();
  const LinearOutput& given = args.outputs.front();
  const std::int64_t own_rows = args.x.extent(0), num_rows = output_rows(own_rows);
  auto& weight = std::any_cast<WeightMatrix&>(kept_.emplace_back(*given.weight));
  weight.cols = c.o_groups / plan_.o_proj_tp * c.o_lora_rank;
  const auto& output = std::any_cast<LinearOutput&>(kept_.emplace_back(LinearOutput{
      &weight, Activations<2>(given.y.address(), given.y.element_type(), {num_rows, weight.rows})}));
  call.detail = fmt::format("wo_b {}", extents(weight));
  call.args = keep(
      LinearArgs{.x = ConstActivations<2>(args.x.address(), args.x.element_type(), {num_rows, weight.cols}),
                 .outputs = {&output, 1},
                 .precision = args.precision});
  // Partial sums of float32. A rank that has all rows of a group of ranks keeps its own alone.
  const double bytes = 4.0 * static_cast<double>(c.hidden_size * num_rows);
  const bool scatters = plan_.sequence_parallel || plan_.o_proj_tp > plan_.tp;
  add_message(call.after, scatters ? CollectiveKind::kReduceScatter : CollectiveKind::kAllReduce,
              plan_.o_proj_tp, bytes);
}

void RankRules::route(const RouteArgs& args, RankCall& call) {
  const std::int64_t rows = kept(args.logits.extent(0));
  RouteArgs own = args;
  own.logits = args.logits.slice(0, rows);
  own.ids = {args.ids.data(), {rows, args.ids.extent(1)}};
  own.weights = args.weights.slice(0, rows);
  own.tokens = args.tokens.first(static_cast<std::size_t>(rows));
  call.args = keep(own);
}

void RankRules::messages_before_experts(std::int64_t num_rows, RankCall& call) const {
  const ModelConfig& c = model_.config();
  const auto width = static_cast<double>(c.hidden_size);
  const auto ranks = static_cast<double>(plan_.ep), rows = static_cast<double>(num_rows);
  const auto chosen = static_cast<double>(c.num_experts_per_tok);
  const double row_bytes = width + width / kWeightBlock;  // e4m3 and power-of-two scales
  const double remote = (ranks - 1) / ranks;
  const double by_assignment = rows * chosen * row_bytes * remote;
  const double by_rank = rows * expected_ranks(static_cast<double>(c.n_routed_experts), ranks, chosen) *
                         remote * (row_bytes + 8 * chosen);
  add_message(call.before, CollectiveKind::kAllToAll, plan_.ep,
              num_rows <= kMaxTokensByAssignment ? by_assignment : by_rank);
  add_message(call.before, CollectiveKind::kAllGather, plan_.moe_tp, rows * chosen / ranks * row_bytes);
}

void RankRules::messages_after_experts(std::int64_t num_rows, RankCall& call) const {
  const ModelConfig& c = model_.config();
  const auto ranks = static_cast<double>(plan_.ep);
  const auto assignments = static_cast<double>(num_rows * c.num_experts_per_tok);
  const double row_bytes = 2.0 * static_cast<double>(c.hidden_size);
  add_message(call.after, CollectiveKind::kReduceScatter, plan_.moe_tp, 2 * assignments / ranks * row_bytes);
  add_message(call.after, CollectiveKind::kAllToAll, plan_.ep, assignments * row_bytes * (ranks - 1) / ranks);
}

void RankRules::experts(const ExpertsArgs& args, RankCall& call) {
  const ModelConfig& c = model_.config();
  const std::int64_t own_rows = args.x.extent(0);
  const double imbalance = c.is_hash_routed(block_) ? workload_.hash_imbalance : workload_.imbalance;
  // Ranks with the same tokens compute what they have for all of them and add up; others send tokens to where experts are.
  const bool same_tokens = plan_.dp == 1 && !plan_.sequence_parallel;
  const std::int64_t num_rows = same_tokens ? own_rows : share_of(own_rows, plan_.tp);
  const std::int64_t groups = workload_.active_groups > 0 ? workload_.active_groups : plan_.dp;
  const auto all_rows = static_cast<double>(own_rows * groups);
  const auto chosen = static_cast<double>(c.num_experts_per_tok);
  const double assignments =
      all_rows * chosen / static_cast<double>(plan_.ep) * (plan_.ep > 1 ? imbalance : 1);
  const double slots = static_cast<double>(plan_.local_experts(c));
  const double visited =
      options_.visited_experts
          ? options_.visited_experts(block_)
          : slots * (1 - std::pow(1 - chosen / static_cast<double>(c.n_routed_experts), all_rows));
  if (!same_tokens) messages_before_experts(num_rows, call);
  ExpertsArgs own = args;
  own.x = args.x.slice(0, num_rows);
  own.out = args.out.slice(0, num_rows);
  own.ids = {args.ids.data(), {num_rows, args.ids.extent(1)}};
  own.weights = args.weights.slice(0, num_rows);
  call.args = keep(own);
  call.detail = fmt::format("{} of {} experts, {:.0f} visits{}", plan_.local_experts(c), c.n_routed_experts,
                            assignments, args.shared != nullptr ? ", shared" : "");
  call.cost = routed_experts_cost(own, assignments, visited) +
              shared_expert_cost(own, static_cast<double>(num_rows)) +
              combine_cost(own, same_tokens ? assignments : static_cast<double>(num_rows) * chosen,
                           static_cast<double>(num_rows));
  if (!same_tokens) {
    messages_after_experts(num_rows, call);
    if (!plan_.sequence_parallel) {  // every rank of the tensor-parallel group goes on with all tokens
      add_message(call.after, CollectiveKind::kAllGather, plan_.tp,
                  2.0 * static_cast<double>(num_rows * c.hidden_size));
    }
  } else {
    add_message(call.after, CollectiveKind::kAllReduce, plan_.stage_ranks(),
                4.0 * static_cast<double>(own_rows * c.hidden_size));
  }
}

void RankRules::lm_head(const LmHeadArgs& args, RankCall& call) {
  block_ = -1;
  add_message(call.after, CollectiveKind::kAllGather, plan_.lmhead_tp,
              4.0 * static_cast<double>(args.x.extent(0) * args.weight->rows));
}

}  // namespace baleen
