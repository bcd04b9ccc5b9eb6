#include "simulator/graph/recording_device.h"

#include <fmt/format.h>

namespace baleen {

RecordingDevice::RecordingDevice(const GraphOptions& options, OpGraph& graph)
    : UnbackedDevice(
          {.architecture = "recorder", .activation_type = options.activations, .shares_host_memory = false}),
      options_(options),
      graph_(graph) {}

void RecordingDevice::record(const OperationSequence& sequence, const void* const* args) {
  if (options_.fuses && sequence.parts.size() > 1 && !sequence.name.empty()) {
    // The backward runs operation by operation.
    OpCost backward;
    for (std::size_t i = 0; i < sequence.parts.size(); ++i)
      backward += sequence.parts[i]->backward_cost(args[i], traits());
    return add(sequence.name, sequence.shape(args), sequence.cost(args, traits()), backward,
               predict(sequence, args));
  }
  for (const OperationInfo* part : sequence.parts) {
    const std::vector<RankMessage> messages = part->messages(*args);
    const std::vector<RankMessage> backward_messages = part->backward_messages(*args);
    for (std::size_t i = 0; i < messages.size(); ++i) add(part->name, messages[i], backward_messages[i]);
    const OpCost cost = part->cost(*args, traits());
    // A collective is its messages and nothing else.
    if (cost.total_flops() > 0 || cost.total_bytes() > 0)
      add(part->name, part->shape(*args), cost, part->backward_cost(*args, traits()),
          predict({.name = part->name, .parts = std::span(&part, 1)}, args));
    ++args;
  }
}

void RecordingDevice::add(std::string_view name, const CallShape& shape, const OpCost& cost,
                          const OpCost& backward, std::optional<double> predicted_seconds) {
  graph_.ops.push_back({.name = name,
                        .detail = shape.detail,
                        .block = block_,
                        .part = part_,
                        .num_rows = static_cast<double>(shape.num_rows),
                        .num_kernels = options_.fuses ? 1 : shape.num_kernels,
                        .num_heads = static_cast<double>(shape.num_heads),
                        .predicted_seconds = predicted_seconds,
                        .cost = cost,
                        .backward = backward});
}

std::optional<double> RecordingDevice::predict(const OperationSequence& sequence,
                                               const void* const* args) const {
  return options_.predict ? options_.predict(sequence, args) : std::nullopt;
}

void RecordingDevice::add(std::string_view sent_by, const RankMessage& message, const RankMessage& backward) {
  if (message.group_size == 1) return;
  graph_.ops.push_back({.name = message_name(message.kind),
                        .detail = fmt::format("{} ranks", message.group_size),
                        .block = block_,
                        .part = part_,
                        .message = message,
                        .sent_by = sent_by,
                        .backward_message = backward});
}

}  // namespace baleen
