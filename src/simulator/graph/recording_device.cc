#include "simulator/graph/recording_device.h"

#include <fmt/format.h>

namespace baleen {

RecordingDevice::RecordingDevice(const GraphOptions& options, OpGraph& graph)
    : options_(options),
      graph_(graph),
      traits_{
          .architecture = "recorder", .activation_type = options.activations, .shares_host_memory = false} {}

void RecordingDevice::record(const OperationSequence& sequence, const void* const* args) {
  if (options_.fuses && sequence.parts.size() > 1 && !sequence.name.empty())
    return add(sequence.name, sequence.shape(args), sequence.cost(args, traits_));
  for (const OperationInfo* part : sequence.parts) {
    for (const RankMessage& message : part->messages(*args)) add(message);
    const OpCost cost = part->cost(*args, traits_);
    // A collective is its messages and nothing else.
    if (cost.total_flops() > 0 || cost.total_bytes() > 0) add(part->name, part->shape(*args), cost);
    ++args;
  }
}

void RecordingDevice::add(std::string_view name, const CallShape& shape, const OpCost& cost) {
  graph_.ops.push_back({.name = name,
                        .detail = shape.detail,
                        .block = block_,
                        .part = part_,
                        .num_rows = static_cast<double>(shape.num_rows),
                        .num_kernels = options_.fuses ? 1 : shape.num_kernels,
                        .num_heads = static_cast<double>(shape.num_heads),
                        .cost = cost});
}

void RecordingDevice::add(const RankMessage& message) {
  if (message.group_size == 1) return;
  graph_.ops.push_back({.name = message_name(message.kind),
                        .detail = fmt::format("{} ranks", message.group_size),
                        .block = block_,
                        .part = part_,
                        .message = message});
}

}  // namespace baleen
