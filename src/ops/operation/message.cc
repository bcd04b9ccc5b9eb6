#include "ops/operation/operation_sequence.h"

namespace baleen {

std::string_view message_name(MessageKind kind) {
  switch (kind) {
    case MessageKind::kAllReduce:
      return "all_reduce";
    case MessageKind::kAllGather:
      return "all_gather";
    case MessageKind::kReduceScatter:
      return "reduce_scatter";
    case MessageKind::kAllToAll:
      return "all_to_all";
    case MessageKind::kSend:
      return "send";
  }
  return "?";
}

RankMessage backward_of(const RankMessage& message) {
  const auto ranks = static_cast<double>(message.group_size);
  switch (message.kind) {
    case MessageKind::kAllGather:
      return {MessageKind::kReduceScatter, message.group_size, message.bytes * ranks};
    case MessageKind::kReduceScatter:
      return {MessageKind::kAllGather, message.group_size, message.bytes / ranks};
    case MessageKind::kAllReduce:
    case MessageKind::kAllToAll:
    case MessageKind::kSend:
      break;
  }
  return message;
}

}  // namespace baleen
