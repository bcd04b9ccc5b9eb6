#include "simulator/graph/recording_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "numeric/block_scale.h"

namespace baleen {
namespace {

/// Up to so many tokens a rank, every visit is sent by itself to fixed places, as captured graphs need it; beyond, a token
/// travels once to each rank that it visits.
constexpr std::int64_t kMostTokensByVisit = 256;

/// Dispatch, first products, SwiGLU, second product, combination; of the shared expert the three in the middle.
constexpr int kRoutedKernels = 5, kSharedKernels = 3;

std::string shape(const WeightMatrix& weight) { return fmt::format("[{} -> {}]", weight.cols, weight.rows); }

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

}  // namespace

RecordingDevice::RecordingDevice(const RankModel& model, const Workload& workload,
                                 const GraphOptions& options, OpGraph& graph)
    : model_(model), plan_(model.plan()), workload_(workload), options_(options), graph_(graph) {}

void RecordingDevice::add(std::string_view operation, std::string detail, std::int64_t num_rows,
                          const OpCost& cost, int num_kernels) {
  graph_.ops.push_back({.name = operation,
                        .detail = std::move(detail),
                        .block = block_,
                        .part = part_,
                        .num_rows = static_cast<double>(num_rows),
                        .num_kernels = options_.fuses ? 1 : num_kernels,
                        .cost = cost});
}

void RecordingDevice::add_message(CollectiveKind kind, std::int64_t group_size, double bytes) {
  if (group_size <= 1) return;
  graph_.ops.push_back({.name = collective_name(kind),
                        .detail = fmt::format("{} ranks", group_size),
                        .block = block_,
                        .part = part_,
                        .collective = {kind, group_size, bytes}});
}

std::int64_t RecordingDevice::kept(std::int64_t rows) const {
  return plan_.sequence_parallel ? share_of(rows, plan_.tp) : rows;
}

void RecordingDevice::embed(const EmbedArgs& args) {
  if (args.table.empty()) return;  // of a stage that gets its streams from the one before
  const std::int64_t rows = kept(args.out.extent(0));
  add("embed", fmt::format("{} streams", args.out.extent(1)), rows,
      embed_cost({.tokens = args.tokens.first(static_cast<std::size_t>(rows)),
                  .table = args.table,
                  .out = args.out.slice(0, rows)}));
}

void RecordingDevice::rope_angles(const RopeAnglesArgs& args) {
  add("rope_angles", "", args.batch.num_rows(), rope_angles_cost(args));
}

void RecordingDevice::hc_pre(const HcPreArgs& args) {
  const std::int64_t rows = kept(args.u.extent(0));
  add("hc_pre", "", rows, hc_pre_cost(first_rows(args, rows)));
}

void RecordingDevice::hc_post(const HcPostArgs& args) {
  const std::int64_t rows = kept(args.f.extent(0));
  add("hc_post", "", rows, hc_post_cost(first_rows(args, rows)));
}

void RecordingDevice::hc_head(const HcHeadArgs& args) {
  block_ = -1;
  add("hc_head", "", args.y.extent(0), hc_head_cost(args));
}

void RecordingDevice::rms_norm(const RmsNormArgs& args) {
  add("rms_norm", fmt::format("width {}", args.x.extent(1)), args.x.extent(0), rms_norm_cost(args));
}

void RecordingDevice::linear(const LinearArgs& args) {
  std::string names;
  const MatrixPlace* first = nullptr;
  for (const LinearOutput& output : args.outputs) {
    const MatrixPlace* place = model_.place_of(output.weight);
    if (first == nullptr) first = place;
    names += fmt::format("{} {} ", place->name, shape(*output.weight));
  }
  names.pop_back();
  block_ = first->block;
  if (first->name == "wo_b") return project_output(args);
  const std::int64_t num_rows = args.x.extent(0);
  if (first->name == "gate") {  // between attention and attention
    LinearOutput gate = args.outputs.front();
    const std::int64_t rows = kept(num_rows);
    gate.y = gate.y.slice(0, rows);
    add("linear", names, rows, linear_cost({.x = args.x.slice(0, rows), .outputs = {&gate, 1}}));
    return;
  }
  if (first->name == "wq_a" && plan_.sequence_parallel) {
    add_message(CollectiveKind::kAllGather, plan_.tp,
                2.0 * static_cast<double>(kept(num_rows) * args.x.extent(1)));
  }
  add("linear", names, num_rows, linear_cost(args), static_cast<int>(args.outputs.size()));
}

void RecordingDevice::rope(const RopeArgs& args) { add("rope", "", args.x.extent(0), rope_cost(args)); }

void RecordingDevice::kv_store(const KvStoreArgs& args) {
  add("kv_store", "", args.kv.extent(0), kv_store_cost(args));
}

void RecordingDevice::compressor(const CompressorArgs& args) {
  add("compressor", fmt::format("ratio {}, width {}", args.ratio, args.norm_weight.size()), args.kv.extent(0),
      compressor_cost(args));
}

void RecordingDevice::indexer(const IndexerArgs& args) {
  add("indexer",
      fmt::format("{} heads x {}, top {}", args.q.extent(1), args.q.extent(2), args.selected.extent(1)),
      args.q.extent(0), indexer_cost(args));
}

void RecordingDevice::sparse_attention(const SparseAttentionArgs& args) {
  add("sparse_attention", fmt::format("{} heads, ratio {}", args.q.extent(1), args.ratio), args.q.extent(0),
      sparse_attention_cost(args));
  graph_.ops.back().num_heads = static_cast<double>(args.q.extent(1));
}

std::int64_t RecordingDevice::output_rows(std::int64_t num_rows) const {
  return num_rows * std::max<std::int64_t>(1, plan_.o_proj_tp / plan_.tp);
}

void RecordingDevice::grouped_linear(const GroupedLinearArgs& args) {
  const ModelConfig& c = model_.config();
  const MatrixPlace* place = model_.place_of(args.weight);
  block_ = place->block;
  const std::int64_t own_rows = args.x.extent(0), num_rows = output_rows(own_rows);
  const auto head_bytes = static_cast<double>(2 * c.head_dim * own_rows);
  if (plan_.o_proj_tp > plan_.tp) {
    const auto parts = static_cast<double>(plan_.o_proj_tp);
    add_message(CollectiveKind::kAllToAll, plan_.o_proj_tp,
                head_bytes * static_cast<double>(c.num_attention_heads) * (parts - 1) / parts);
  } else if (plan_.o_proj_tp < plan_.tp) {
    add_message(CollectiveKind::kAllGather, plan_.tp / plan_.o_proj_tp,
                head_bytes * static_cast<double>(model_.rank_config().num_attention_heads));
  }
  const std::int64_t groups = c.o_groups / plan_.o_proj_tp;
  WeightMatrix weight = *args.weight;
  weight.rows = groups * c.o_lora_rank;
  weight.cols = c.group_dim();
  const ElementType type = args.x.element_type();
  add("grouped_linear", fmt::format("{} {} groups {}", place->name, groups, shape(weight)), num_rows,
      grouped_linear_cost(
          {.x = ConstActivations<3>(args.x.address(), type, {num_rows, groups, c.group_dim()}),
           .weight = &weight,
           .y = Activations<2>(args.y.address(), type, {num_rows, weight.rows}),
           .precision = args.precision}));
}

void RecordingDevice::project_output(const LinearArgs& args) {
  const ModelConfig& c = model_.config();
  const LinearOutput& given = args.outputs.front();
  const std::int64_t own_rows = args.x.extent(0), num_rows = output_rows(own_rows);
  WeightMatrix weight = *given.weight;
  weight.cols = c.o_groups / plan_.o_proj_tp * c.o_lora_rank;
  const ElementType type = args.x.element_type();
  const LinearOutput output{
      &weight, Activations<2>(given.y.address(), given.y.element_type(), {num_rows, weight.rows})};
  add("linear", fmt::format("wo_b {}", shape(weight)), num_rows,
      linear_cost({.x = ConstActivations<2>(args.x.address(), type, {num_rows, weight.cols}),
                   .outputs = {&output, 1},
                   .precision = args.precision}));
  // Partial sums of float32. Whoever has all rows of a group of ranks keeps its own alone.
  const double bytes = 4.0 * static_cast<double>(c.hidden_size * num_rows);
  const bool scatters = plan_.sequence_parallel || plan_.o_proj_tp > plan_.tp;
  add_message(scatters ? CollectiveKind::kReduceScatter : CollectiveKind::kAllReduce, plan_.o_proj_tp, bytes);
}

void RecordingDevice::route(const RouteArgs& args) {
  const std::int64_t rows = kept(args.logits.extent(0));
  RouteArgs own = args;
  own.logits = args.logits.slice(0, rows);
  own.ids = {args.ids.data(), {rows, args.ids.extent(1)}};
  own.weights = args.weights.slice(0, rows);
  own.tokens = args.tokens.first(static_cast<std::size_t>(rows));
  add("route", args.hash_table.empty() ? "by score" : "by token", rows, route_cost(own));
}

void RecordingDevice::messages_before_experts(std::int64_t num_rows) {
  const ModelConfig& c = model_.config();
  const auto width = static_cast<double>(c.hidden_size);
  const auto ranks = static_cast<double>(plan_.ep), rows = static_cast<double>(num_rows);
  const auto chosen = static_cast<double>(c.num_experts_per_tok);
  const double row_bytes = width + width / kWeightBlock;  // e4m3 and power-of-two scales
  const double remote = (ranks - 1) / ranks;
  const double by_visit = rows * chosen * row_bytes * remote;
  const double by_rank = rows * expected_ranks(static_cast<double>(c.n_routed_experts), ranks, chosen) *
                         remote * (row_bytes + 8 * chosen);
  add_message(CollectiveKind::kAllToAll, plan_.ep, num_rows <= kMostTokensByVisit ? by_visit : by_rank);
  add_message(CollectiveKind::kAllGather, plan_.moe_tp, rows * chosen / ranks * row_bytes);
}

void RecordingDevice::messages_after_experts(std::int64_t num_rows) {
  const ModelConfig& c = model_.config();
  const auto ranks = static_cast<double>(plan_.ep);
  const auto visits = static_cast<double>(num_rows * c.num_experts_per_tok);
  const double row_bytes = 2.0 * static_cast<double>(c.hidden_size);
  add_message(CollectiveKind::kReduceScatter, plan_.moe_tp, 2 * visits / ranks * row_bytes);
  add_message(CollectiveKind::kAllToAll, plan_.ep, visits * row_bytes * (ranks - 1) / ranks);
}

void RecordingDevice::experts(const ExpertsArgs& args) {
  const ModelConfig& c = model_.config();
  const std::int64_t own_rows = args.x.extent(0);
  const double imbalance = c.is_hash_routed(block_) ? workload_.hash_imbalance : workload_.imbalance;
  // Ranks with the same tokens compute what they have for all of them and add up; others send tokens to where experts are.
  const bool same_tokens = plan_.dp == 1 && !plan_.sequence_parallel;
  const std::int64_t num_rows = same_tokens ? own_rows : share_of(own_rows, plan_.tp);
  const std::int64_t groups = workload_.active_groups > 0 ? workload_.active_groups : plan_.dp;
  const auto all_rows = static_cast<double>(own_rows * groups);
  const auto chosen = static_cast<double>(c.num_experts_per_tok);
  const double visits = all_rows * chosen / static_cast<double>(plan_.ep) * (plan_.ep > 1 ? imbalance : 1);
  const double slots = static_cast<double>(plan_.local_experts(c));
  const double visited =
      options_.visited_experts
          ? options_.visited_experts(block_)
          : slots * (1 - std::pow(1 - chosen / static_cast<double>(c.n_routed_experts), all_rows));
  if (!same_tokens) messages_before_experts(num_rows);
  ExpertsArgs own = args;
  own.x = args.x.slice(0, num_rows);
  own.out = args.out.slice(0, num_rows);
  own.ids = {args.ids.data(), {num_rows, args.ids.extent(1)}};
  own.weights = args.weights.slice(0, num_rows);
  add("experts",
      fmt::format("{} of {} experts, {:.0f} visits{}", plan_.local_experts(c), c.n_routed_experts, visits,
                  args.shared != nullptr ? ", shared" : ""),
      num_rows,
      routed_experts_cost(own, visits, visited) + shared_expert_cost(own, static_cast<double>(num_rows)) +
          combine_cost(own, same_tokens ? visits : static_cast<double>(num_rows) * chosen,
                       static_cast<double>(num_rows)),
      args.shared != nullptr ? kRoutedKernels + kSharedKernels : kRoutedKernels);
  if (!same_tokens) {
    messages_after_experts(num_rows);
    if (!plan_.sequence_parallel) {  // every rank of the tensor-parallel group goes on with all tokens
      add_message(CollectiveKind::kAllGather, plan_.tp, 2.0 * static_cast<double>(num_rows * c.hidden_size));
    }
  } else {
    add_message(CollectiveKind::kAllReduce, plan_.stage_ranks(),
                4.0 * static_cast<double>(own_rows * c.hidden_size));
  }
}

void RecordingDevice::mtp_combine(const MtpCombineArgs& args) {
  add("mtp_combine", "", args.streams.extent(0), mtp_combine_cost(args));
}

void RecordingDevice::lm_head(const LmHeadArgs& args) {
  block_ = -1;
  add("lm_head", shape(*args.weight), args.x.extent(0), lm_head_cost(args));
  add_message(CollectiveKind::kAllGather, plan_.lmhead_tp,
              4.0 * static_cast<double>(args.x.extent(0) * args.weight->rows));
}

void RecordingDevice::gather_rows(const GatherRowsArgs& args) {
  add("gather_rows", "", std::ssize(args.pairs), gather_rows_cost(args));
}

void RecordingDevice::sample(const SampleArgs& args) {
  add("sample", "", args.logits.extent(0), sample_cost(args));
}

void RecordingDevice::hc_pre_norm(const HcPreArgs& pre, const RmsNormArgs& norm) {
  const std::int64_t rows = kept(pre.u.extent(0));
  if (!options_.fuses) {
    hc_pre(pre);
    return rms_norm(first_rows(norm, rows));
  }
  add("hc_pre_norm", "", rows, hc_pre_norm_cost(first_rows(pre, rows), first_rows(norm, rows)));
}

void RecordingDevice::hc_post_pre_norm(const HcPostArgs& post, const HcPreArgs& pre,
                                       const RmsNormArgs& norm) {
  const std::int64_t rows = kept(pre.u.extent(0));
  if (!options_.fuses) {
    hc_post(post);
    return hc_pre_norm(pre, norm);
  }
  add("hc_post_pre_norm", "", rows,
      hc_post_pre_norm_cost(first_rows(post, rows), first_rows(pre, rows), first_rows(norm, rows)));
}

void RecordingDevice::rms_norm_rope(const RmsNormArgs& norm, const RopeArgs& turn) {
  if (!options_.fuses) {
    rms_norm(norm);
    graph_.ops.back().num_rows =
        static_cast<double>(turn.x.extent(0));  // tokens, whose heads are rows of the norm
    return rope(turn);
  }
  add("rms_norm_rope", "", turn.x.extent(0), rms_norm_rope_cost(norm, turn));
}

void RecordingDevice::rms_norm_kv_store(const RmsNormArgs& norm, const KvStoreArgs& store) {
  if (!options_.fuses) return Device::rms_norm_kv_store(norm, store);
  add("rms_norm_kv_store", "", store.kv.extent(0), rms_norm_cost(norm) + kv_store_cost(store));
}

void RecordingDevice::sparse_attention_rope(const SparseAttentionArgs& args, const RopeArgs& turn) {
  if (!options_.fuses) return Device::sparse_attention_rope(args, turn);
  add("sparse_attention_rope", fmt::format("{} heads, ratio {}", args.q.extent(1), args.ratio),
      args.q.extent(0), sparse_attention_rope_cost(args, turn));
  graph_.ops.back().num_heads = static_cast<double>(args.q.extent(1));
}

}  // namespace baleen
