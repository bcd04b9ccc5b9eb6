#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "simulator/report/operation_sums.h"
#include "simulator/report/step_report.h"

namespace baleen {
namespace {

constexpr double kGB = 1e-9;

std::string head_text(const StepReport& report) {
  return fmt::format("{} on {}\n{}; {}\n\n", report.model.name, report.device.description,
                     to_text(report.plan), workload_text(report.workload));
}

std::string totals_text(const StepReport& report) {
  const StepEstimate& e = report.estimate;
  const auto devices = static_cast<double>(report.plan.num_devices);
  std::string text = fmt::format("\nstep            {}", seconds_text(e.seconds));
  if (e.stages.size() > 1)
    text += fmt::format("  ({} stages, {} between them)", e.stages.size(), seconds_text(e.send_seconds));
  if (e.host_seconds > 0) text += fmt::format("  (of it host {})", seconds_text(e.host_seconds));
  text += "\n";
  if (report.workload.decode) {
    const double per_user = report.workload.tokens_per_step() / e.seconds;
    text += fmt::format("time per token  {}  ({:.1f} tokens/s for each user)\n", seconds_text(1 / per_user),
                        per_user);
    text += fmt::format("throughput      {:.1f} tokens/s, {:.1f} a device\n", e.tokens_out / e.seconds,
                        e.tokens_out / e.seconds / devices);
  } else {
    text += fmt::format("first token     {}\n", seconds_text(e.seconds));
    text += fmt::format("throughput      {:.1f} prompt tokens/s, {:.1f} a device\n", e.tokens / e.seconds,
                        e.tokens / e.seconds / devices);
  }
  return text;
}

std::string bounds_text(const std::vector<OperationSum>& sums) {
  std::array<double, kNumBounds> seconds{};
  double all = 0;
  for (const OperationSum& sum : sums) {
    for (std::size_t i = 0; i < seconds.size(); ++i) seconds[i] += sum.bound_seconds[i];
    all += sum.seconds;
  }
  std::string text = "bound by        ";
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    const auto bound = static_cast<Bound>(i);
    if (bound == Bound::kHostCopies && seconds[i] == 0) continue;  // most plans have none
    text += fmt::format("{}{} {:.0f}%", i == 0 ? "" : ", ", bound_name(bound), 100 * seconds[i] / all);
  }
  return text + "\n";
}

std::string memory_text(const StepReport& report) {
  const StepEstimate& e = report.estimate;
  const auto fullest =
      std::ranges::max_element(e.stages, {}, [](const StageEstimate& stage) { return stage.memory.total(); });
  std::string text = fmt::format("\n{:<18}{:>10}\n", "memory a device", "GB");
  for (const auto& [name, bytes] : fullest->memory.parts()) {
    if (bytes > 0) text += fmt::format("{:<18}{:>10.3f}\n", name, static_cast<double>(bytes) * kGB);
  }
  const double free = static_cast<double>(e.device_memory_bytes - e.memory_bytes) * kGB;
  text += fmt::format("{:<18}{:>10.3f}  of {:.3f}: ", "in all", static_cast<double>(e.memory_bytes) * kGB,
                      static_cast<double>(e.device_memory_bytes) * kGB);
  text += (free >= 0 ? fmt::format("{:.3f} are left\n", free) : fmt::format("{:.3f} too much\n", -free));
  if (const ExpertCounts& experts = fullest->memory.experts; experts.num_on_host > 0) {
    text += fmt::format(
        "{:<18}{:>10.3f}  {} of {} routed experts ({:.1f}%), {} when they are needed\n", "on the host",
        static_cast<double>(fullest->memory.host_expert_bytes) * kGB, experts.num_on_host,
        experts.num_in_all(),
        100.0 * static_cast<double>(experts.num_on_host) / static_cast<double>(experts.num_in_all()),
        report.device.computes_on_host ? "copied, or computed there," : "copied");
  }
  if (const ExpertCounts& experts = fullest->memory.experts; experts.num_on_disk > 0) {
    text += fmt::format(
        "{:<18}{:>10.3f}  {} routed experts ({:.1f}%), read when they are needed\n", "on disk",
        static_cast<double>(fullest->memory.disk_expert_bytes) * kGB, experts.num_on_disk,
        100.0 * static_cast<double>(experts.num_on_disk) / static_cast<double>(experts.num_in_all()));
  }
  if (const auto& place = fullest->memory.engram_place; place && *place != EngramPlace::kDevice) {
    text += fmt::format(
        "{:<18}{:>10.3f}  {}, of which a token reads {} rows\n", "tables of n-grams",
        static_cast<double>(fullest->memory.engram_table_bytes) * kGB,
        *place == EngramPlace::kDisk ? "on disk" : fmt::format("in {}", engram_place_name(*place)),
        report.model.config.engram->num_hashes() * std::ssize(report.model.config.engram->layer_ids));
  }
  return text;
}

}  // namespace

std::string workload_text(const Workload& w) {
  std::string text = w.decode ? fmt::format("{} decode, {} positions of context", queries_text(w.num_queries),
                                            w.context_length)
                              : fmt::format("{} of {} tokens, {} positions of context",
                                            queries_text(w.num_queries), w.query_length, w.context_length);
  if (w.decode && w.num_drafts > 0)
    text += fmt::format(", {} draft{}, {:.2f} tokens a step", w.num_drafts, w.num_drafts == 1 ? "" : "s",
                        w.tokens_per_step());
  if (w.bounded_replay > 0) text += fmt::format(", {} of each in all layers", w.bounded_replay);
  return text;
}

Bound OperationSum::bound() const {
  return static_cast<Bound>(std::ranges::max_element(bound_seconds) - bound_seconds.begin());
}

std::vector<OperationSum> operation_sums(const StepEstimate& estimate, TableRows rows) {
  std::map<std::string, OperationSum> sums;
  for (const StageEstimate& stage : estimate.stages) {
    for (const OpEstimate& op : stage.ops) {
      std::string name(op.op.name);
      if (rows == TableRows::kByShape && !op.op.detail.empty()) name += " " + op.op.detail;
      OperationSum& sum = sums[name];
      sum.name = name;
      ++sum.calls;
      sum.seconds += op.time.seconds;
      sum.flops += op.op.cost.total_flops();
      sum.bytes += op.op.is_collective() ? op.op.message.bytes : op.op.cost.total_bytes();
      sum.bound_seconds[static_cast<std::size_t>(op.time.bound)] += op.time.seconds;
    }
  }
  std::vector<OperationSum> list;
  for (auto& [name, sum] : sums) list.push_back(std::move(sum));
  std::ranges::stable_sort(list, std::greater(), &OperationSum::seconds);
  return list;
}

std::string step_table(const StepReport& report, TableRows rows) {
  const std::vector<OperationSum> sums = operation_sums(report.estimate, rows);
  double all = 0;
  std::size_t width = 24;
  for (const OperationSum& sum : sums) {
    all += sum.seconds;
    width = std::max(width, sum.name.size() + 2);
  }
  std::string text = head_text(report);
  text += fmt::format("{:<{}}{:>12}{:>12}{:>8}{:>8}  {:<14}{:>11}{:>11}\n", "Name", width, "total", "mean",
                      "calls", "share", "bound", "FLOP", "bytes");
  for (const OperationSum& sum : sums) {
    text += fmt::format("{:<{}}{:>12}{:>12}{:>8}{:>7.1f}%  {:<14}{:>11}{:>11}\n", sum.name, width,
                        seconds_text(sum.seconds), seconds_text(sum.seconds / static_cast<double>(sum.calls)),
                        sum.calls, 100 * sum.seconds / all, bound_name(sum.bound()), count_text(sum.flops),
                        count_text(sum.bytes));
  }
  return text + totals_text(report) + bounds_text(sums) + memory_text(report);
}

}  // namespace baleen
