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

}  // namespace baleen
