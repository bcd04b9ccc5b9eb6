#include <nlohmann/json.hpp>

#include "simulator/report/operation_sums.h"
#include "simulator/report/step_report.h"

namespace baleen {
namespace {

using Json = nlohmann::ordered_json;

Json plan_json(const ParallelPlan& plan) {
  return {{"num_devices", plan.num_devices},
          {"tp", plan.tp},
          {"cp", plan.cp},
          {"dp", plan.dp},
          {"ep", plan.ep},
          {"pp", plan.pp},
          {"moe_tp", plan.moe_tp},
          {"o_proj_tp", plan.o_proj_tp},
          {"lmhead_tp", plan.lmhead_tp},
          {"redundant_experts", plan.redundant_experts},
          {"sequence_parallel", plan.sequence_parallel},
          {"dual_batch_overlap", plan.dual_batch_overlap}};
}

Json workload_json(const Workload& workload) {
  return {{"num_queries", workload.num_queries},
          {"query_length", workload.query_length},
          {"context_length", workload.context_length},
          {"decode", workload.decode},
          {"num_mtp_tokens", workload.num_drafts},
          {"tokens_per_step", workload.decode ? workload.tokens_per_step() : 0},
          {"prefix_cache_hit_rate", workload.prefix_cache_hit_rate},
          {"bounded_replay", workload.bounded_replay},
          {"imbalance", workload.imbalance},
          {"hash_imbalance", workload.hash_imbalance},
          {"zipf", workload.zipf},
          {"guessed_experts", workload.guessed_experts}};
}

/// What bounds a step, and for how long of it.
Json bounds_json(const StepEstimate& estimate) {
  Json bounds = Json::object();
  for (const OperationSum& sum : operation_sums(estimate, TableRows::kByOperation)) {
    for (std::size_t i = 0; i < kNumBounds; ++i) {
      const std::string name(bound_name(static_cast<Bound>(i)));
      bounds[name] = bounds.value(name, 0.0) + sum.bound_seconds[i];
    }
  }
  return bounds;
}

}  // namespace

std::string step_json(const StepReport& report) {
  const StepEstimate& e = report.estimate;
  Json json{{"model", report.model.name},
            {"device", report.device.name},
            {"plan", plan_json(report.plan)},
            {"workload", workload_json(report.workload)},
            {"operations", Json::array()}};
  for (const OperationSum& sum : operation_sums(e, TableRows::kByOperation)) {
    json["operations"].push_back({{"name", sum.name},
                                  {"calls", sum.calls},
                                  {"seconds", sum.seconds},
                                  {"bound", bound_name(sum.bound())},
                                  {"flops", sum.flops},
                                  {"bytes", sum.bytes}});
  }
  json["step_seconds"] = e.seconds;
  json["send_seconds"] = e.send_seconds;
  json["host_seconds"] = e.host_seconds;
  json["bound_seconds"] = bounds_json(e);
  if (report.workload.decode) {
    json["tpot_seconds"] = e.seconds / report.workload.tokens_per_step();
    json["tokens_per_second"] = e.tokens_out / e.seconds;
  } else {
    json["ttft_seconds"] = e.seconds;
    json["tokens_per_second"] = e.tokens / e.seconds;
  }
  json["tokens_per_second_per_device"] =
      json["tokens_per_second"].get<double>() / static_cast<double>(report.plan.num_devices);
  json["memory"] = Json::array();
  for (const StageEstimate& stage : e.stages) {
    Json parts;
    for (const auto& [name, bytes] : stage.memory.parts()) parts[std::string(name)] = bytes;
    Json memory = {{"layers", {stage.stage.begin, stage.stage.end}},
                   {"bytes", parts},
                   {"total", stage.memory.total()},
                   {"host_experts", stage.memory.experts.num_on_host},
                   {"disk_experts", stage.memory.experts.num_on_disk},
                   {"host_expert_bytes", stage.memory.host_expert_bytes}};
    if (const auto& place = stage.memory.engram_place) memory["engram_place"] = engram_place_name(*place);
    json["memory"].push_back(std::move(memory));
  }
  json["device_memory_bytes"] = e.device_memory_bytes;
  json["fits"] = e.fits();
  if (!report.advice.empty()) json["advice"] = report.advice;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace baleen
