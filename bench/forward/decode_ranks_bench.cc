// Decoding of one sequence by the whole model on several GPUs of one host, weights made up: the median of a
// step with its logits. One rank a GPU and a thread.
//     decode_ranks_bench PLAN PRESET LAYERS CONTEXT STEPS ROWS TRANSPORT [OPERATION=KERNEL]...
// PLAN: one (GPU), dp, or tp: as CPU ranks do by themselves; tp-inner: experts split by their inner width;
// tp-shared: the shared one alone; tp-whole: none. LAYERS 0: all. ROWS: of a step, as drafts have them.
// TRANSPORT: of --expert-transport; auto: the plan's own; nccl: all messages go by NCCL.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>

#include "bench_ranks.h"
#include "comm/nccl/nccl_rank.h"
#include "device/device_choice.h"
#include "model/expert_transport.h"

namespace baleen::bench {
namespace {

constexpr std::int64_t kChunk = 512;
constexpr std::chrono::seconds kLongestWait{120};

struct Workload {
  std::string plan = "tp", preset = "flash", transport = "auto";
  std::int64_t num_layers = 0, context = 4096, steps = 64, rows = 1;
  std::vector<ForcedVariant> forced;
  [[nodiscard]] bool by_nccl() const { return transport == "nccl"; }
};

/// Positions that a run reaches.
std::int64_t positions(const Workload& work) { return work.context + (work.steps + 16) * work.rows; }

DeviceOptions device_options(const RankConfig& rank, const Workload& work, const ParallelPlan& plan) {
  const ModelConfig& config = rank.model();
  const StepShape shape = step_shape(rank, plan.dp * kChunk, kChunk, 1, positions(work));
  return {.scratch_bytes = scratch_bytes(planned_gpu().architecture->traits, shape) +
                           split_experts_scratch_bytes(kChunk, config.num_experts_per_tok, config.hidden_size,
                                                       config.n_routed_experts, {true, true}),
          .max_rows = kChunk,
          .max_sequences = 1,
          .max_pages = positions(work) / 256 + 2,
          .forced_variants = work.forced};
}

void print_profile(BenchRank& rank, std::int64_t steps, std::int64_t num_rows) {
  rank.device().set_profiling(true);
  rank.step(num_rows);
  rank.device().profile().clear();
  for (std::int64_t i = 0; i < steps; ++i) rank.step(num_rows);
  rank.device().synchronise();
  std::vector<std::pair<std::string_view, OpRecord>> rows;
  for (const auto& [name, record] : rank.device().profile().records()) rows.emplace_back(name, record);
  std::ranges::sort(rows, [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  for (const auto& [name, record] : rows) {
    fmt::print("# {:<28}{:>7} calls a step{:>10.1f} us a step{:>8.2f} us a call\n", name,
               record.calls / steps, 1e6 * record.seconds / static_cast<double>(steps),
               1e6 * record.seconds / static_cast<double>(record.calls));
  }
}

void run_rank(const BenchService& service, const Workload& work, std::int64_t index) {
  const RankLayout layout(service.config, service.plan, even_stage(service.config, 1, 0), 0, index);
  LocalCommunicator host(service.exchange);
  std::optional<NcclRank> nccl;
  std::optional<PeerRank> over_nccl;
  if (work.by_nccl()) {
    nccl.emplace(static_cast<int>(index), index, service.plan.num_devices, host, kLongestWait);
    over_nccl.emplace(*nccl);
  }
  const RankConfig own = rank_config(service.config, layout.plan(), layout.stage());
  BenchRank rank(service, layout, device_options(own, work, layout.plan()));
  if (service.plan.num_devices > 1) {
    rank.device().connect(over_nccl ? *over_nccl : service.peers->rank(index), host,
                          service.plan.dp > 1 ? layout.stage_ranks() : RankGroup{.ranks = {index}});
  }
  rank.open(1);
  service.ready.arrive_and_wait();
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t at = 0; at < work.context; at += kChunk) rank.step(std::min(kChunk, work.context - at));
  rank.device().synchronise();
  const double prefill = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  rank.forward().capture(rank.device().traits().padded_rows(work.rows));
  // The host is a step ahead, as the engine is.
  std::vector<double> times;
  StepReplay& steps = rank.device().steps();
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < work.steps; ++i) {
    rank.step(work.rows);
    steps.set_mark(i % StepReplay::kNumMarks);
    if (i == 0) continue;
    steps.wait_for((i - 1) % StepReplay::kNumMarks);
    const auto end = std::chrono::steady_clock::now();
    if (i > 1) times.push_back(1e6 * std::chrono::duration<double>(end - start).count());
    start = end;
  }
  rank.device().synchronise();
  if (index == 0) {
    report("decode a token",
           fmt::format("{} {} layers behind {} on {} GPUs {}{}{}", work.preset,
                       service.config.num_hidden_layers, work.context, service.plan.num_devices, work.plan,
                       work.rows > 1 ? fmt::format(" {} rows", work.rows) : "",
                       work.transport == "auto" ? "" : " " + work.transport) +
               (work.forced.empty() ? "" : " forced"),
           timing_of(times), 0, 0,
           fmt::format("prefill {:.0f} tokens/s", static_cast<double>(work.context) / prefill));
  }
  service.ready.arrive_and_wait();
  if (index == 0) {
    print_profile(rank, 3, work.rows);
  } else {
    rank.device().set_profiling(true);
    for (int i = 0; i < 4; ++i) rank.step(work.rows);
    rank.device().synchronise();
  }
  service.ready.arrive_and_wait();
}

void run(const Workload& work) {
  const ModelConfig config = layers_of(work.preset, work.num_layers);
  const int count = count_gpus();
  ParallelPlan plan{.num_devices = work.plan == "one" ? 1 : count};
  plan.tp = work.plan.starts_with("tp") ? count : 1;
  if (work.plan == "tp-inner") plan.moe_tp = count;
  if (work.plan == "tp-shared" || work.plan == "tp-whole") plan.ep = count;
  if (work.plan == "tp-whole") plan.shared_tp = 1;
  for (const ExpertTransportTraits& one : expert_transports())
    if (one.name == work.transport && !work.by_nccl()) plan.expert_transport = one.transport;
  plan = resolved(plan, config);
  if (work.by_nccl() && expert_transport(plan, device_traits(planned_gpu(), 1)).way)
    plan.expert_transport = ExpertTransport::kNccl;
  run_ranks(config, plan, work.by_nccl(), kLongestWait,
            [&](const BenchService& service, std::int64_t rank) { run_rank(service, work, rank); });
}

}  // namespace
}  // namespace baleen::bench

int main(int count, char** values) {
  return baleen::bench::status_of([&] {
    baleen::bench::Workload work;
    if (count > 1) work.plan = values[1];
    if (count > 2) work.preset = values[2];
    if (count > 3) work.num_layers = std::atoll(values[3]);
    if (count > 4) work.context = std::atoll(values[4]);
    if (count > 5) work.steps = std::atoll(values[5]);
    if (count > 6) work.rows = std::atoll(values[6]);
    if (count > 7) work.transport = values[7];
    for (int i = 8; i < count; ++i) work.forced.push_back(baleen::parse_forced_variant(values[i]));
    baleen::bench::run(work);
  });
}
