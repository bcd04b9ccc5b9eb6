#include "app/plan_flags.h"

#include <string>
#include <utility>
#include <vector>

#include "app/option_ranges.h"
#include "app/options.h"

namespace baleen {

void add_plan_options(Options& command, ParallelPlan& plan) {
  const auto count = [&](const char* names, std::int64_t& value, const char* text) {
    command.integer_without_default(names, value, {0, kMaxRanks}, text);
  };
  count("--num-devices,--world-size", plan.num_devices, "Devices in all: pp x dp x tp or cp");
  count("--tp,--tp-size", plan.tp, "Ranks that share an attention's heads; default 1");
  count("--cp,--prefill-context-parallel-size", plan.cp,
        "Ranks that share out the rows of a step, each with whole attention weights; default 1");
  count("--dp,--dp-size", plan.dp, "Groups that share the queries; default: what devices are left");
  count("--ep,--ep-size", plan.ep, "Ranks that share the experts; default: all of a stage");
  count("--pp,--pp-size", plan.pp, "Stages of a pipeline; default 1");
  command.integers(
      "--stage-layers", plan.stage_layers, kLayersRange,
      "Layers of each stage of the pipeline, as 25,18, for GPUs that are not alike; default: as even "
      "as can be");
  count("--moe-tp,--moe-tp-size", plan.moe_tp,
        "Ranks that share an expert's inner width; default: what ep leaves");
  count("--o-proj-tp,--o-proj-tp-size", plan.o_proj_tp,
        "Ranks that share the output projection's groups; default: tp");
  count("--lmhead-tp,--lmhead-tp-size", plan.lmhead_tp, "Ranks that share the vocabulary; default: tp or cp");
  count("--prefill-groups", plan.prefill_groups,
        "Of the dp groups, so many only compute prompts and the others only decode; default: all do both");
  count("--redundant-experts,--enable-redundant-experts", plan.redundant_experts,
        "Copies of experts beyond one of each, in every layer");
  command.choice("--expert-placement", plan.expert_placement,
                 {{"linear", ExpertOrder::kLinear}, {"round-robin", ExpertOrder::kRoundRobin}},
                 "Where experts lie: neighbours on the same rank, or expert e on rank e mod ep");
  std::vector<std::pair<std::string, ExpertTransport>> transports{{"auto", ExpertTransport::kAutomatic}};
  for (const ExpertTransportTraits& one : expert_transports())
    transports.emplace_back(one.name, one.transport);
  command.choice(
      "--expert-transport", plan.expert_transport, transports,
      "Force how rows get to experts of other ranks and back; one that the plan or its devices cannot "
      "have is refused with the reason. `plan --explain` and `bench --kernels` list them. auto: the "
      "first that can, of fused between two ranks alone");
  command.flag("--sequence-parallel,--enable-sequence-parallel", plan.sequence_parallel,
               "Ranks of a tp group share out the tokens between attention and attention");
  command.flag("--dbo", plan.dual_batch_overlap,
               "Two micro-batches: one computes while the other communicates");
}

}  // namespace baleen
