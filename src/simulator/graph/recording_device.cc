#include "simulator/graph/recording_device.h"

#include <fmt/format.h>

namespace baleen {

RecordingDevice::RecordingDevice(const RankModel& model, const Workload& workload,
                                 const GraphOptions& options, OpGraph& graph)
    : options_(options),
      graph_(graph),
      traits_{.architecture = "recorder", .activation_type = options.activations},
      rules_(model, workload, options) {}

void RecordingDevice::record(const OperationSequence& sequence, const void* const* args) {
  const std::vector<RankCall> calls = rules_.of_rank(sequence, args);
  const bool in_one_pass = options_.fuses && calls.size() > 1 && !sequence.name.empty();
  if (in_one_pass) {
    std::vector<const void*> own;
    for (const RankCall& call : calls) own.push_back(call.args);
    return add(sequence.name, sequence.shape(own.data()), sequence.cost(own.data(), traits_));
  }
  for (const RankCall& call : calls) {
    if (call.is_elsewhere) continue;
    add(call.before);
    CallShape shape = call.operation->shape(call.args);
    if (call.detail) shape.detail = *call.detail;
    if (call.num_rows) shape.num_rows = *call.num_rows;
    add(call.operation->name, shape, call.cost ? *call.cost : call.operation->cost(call.args, traits_));
    add(call.after);
  }
}

void RecordingDevice::add(std::string_view name, const CallShape& shape, const OpCost& cost) {
  graph_.ops.push_back({.name = name,
                        .detail = shape.detail,
                        .block = rules_.block(),
                        .part = part_,
                        .num_rows = static_cast<double>(shape.num_rows),
                        .num_kernels = options_.fuses ? 1 : shape.num_kernels,
                        .num_heads = static_cast<double>(shape.num_heads),
                        .cost = cost});
}

void RecordingDevice::add(const std::vector<Collective>& messages) {
  for (const Collective& message : messages) {
    graph_.ops.push_back({.name = collective_name(message.kind),
                          .detail = fmt::format("{} ranks", message.group_size),
                          .block = rules_.block(),
                          .part = part_,
                          .collective = message});
  }
}

}  // namespace baleen
