#include "simulator/cost/time_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"

namespace baleen {
namespace {

/// Messages that several algorithms could carry take the quickest.
double all_reduce_seconds(double ranks, double bytes, double latency, double rate) {
  const double ring = 2 * (ranks - 1) * latency + 2 * (ranks - 1) / ranks * bytes / rate;
  const double tree = 2 * std::log2(ranks) * latency + 2 * bytes / rate;
  const double one_shot = latency + (ranks - 1) * bytes / rate;
  return std::min({ring, tree, one_shot});
}

/// Bytes that a rank sends over its links.
double sent_bytes(const RankMessage& message, double whole_up_to_bytes) {
  const auto ranks = static_cast<double>(message.group_size);
  const double bytes = message.bytes;
  switch (message.kind) {
    case MessageKind::kAllReduce:
      return bytes <= whole_up_to_bytes ? (ranks - 1) * bytes : 2 * (ranks - 1) / ranks * bytes;
    case MessageKind::kAllGather:
      return (ranks - 1) * bytes;
    case MessageKind::kReduceScatter:
      return (ranks - 1) / ranks * bytes;
    case MessageKind::kAllToAll:
    case MessageKind::kSend:
      break;
  }
  return bytes;
}

double padded(double count, double tile) { return std::ceil(count / tile) * tile; }

}  // namespace

std::string_view bound_name(Bound bound) {
  switch (bound) {
    case Bound::kMemory:
      return "memory";
    case Bound::kCompute:
      return "compute";
    case Bound::kLatency:
      return "latency";
    case Bound::kCommunication:
      return "communication";
    case Bound::kHostCopies:
      return "copies from the host";
  }
  return "?";
}

OpTime TimeModel::time_of(const GraphOp& op) const {
  if (!op.is_collective()) return operation_time(op);
  const double seconds = collective_seconds(op.message, op.sent_by);
  return {.seconds = seconds, .communication_seconds = seconds, .bound = Bound::kCommunication};
}

OpTime TimeModel::backward_time_of(const GraphOp& op) const {
  GraphOp backward = op;
  backward.cost = op.backward;
  backward.message = op.backward_message;
  backward.predicted_seconds.reset();
  const bool runs =
      backward.is_collective() || backward.cost.total_flops() > 0 || backward.cost.total_bytes() > 0;
  return runs ? time_of(backward) : OpTime();
}

double TimeModel::matrix_rate(MathFormat format) const {
  using enum PeakFormat;
  std::array<PeakFormat, 3> from_narrow{};
  switch (format) {
    case MathFormat::kFp4:
      from_narrow = {kFp4, kFp8, kBf16};
      break;
    case MathFormat::kFp8:
      from_narrow = {kFp8, kBf16, kFp32};
      break;
    case MathFormat::kBF16:
      from_narrow = {kBf16, kFp32, kFp32};
      break;
    default:
      from_narrow = {kTf32, kFp32, kFp32};
      break;
  }
  for (const PeakFormat candidate : from_narrow) {
    if (profile_.peak(candidate) > 0) return profile_.peak(candidate);
  }
  return profile_.peak(profile_.peak(kFp32) > 0 ? kFp32 : kBf16);  // a profile has one of them
}

OpTime TimeModel::operation_time(const GraphOp& op) const {
  // Attention may have a table for its number of heads.
  const std::string by_heads = op.num_heads > 0 ? fmt::format("{}/{:.0f}", op.name, op.num_heads) : "";
  const std::string_view name = profile_.operations.contains(by_heads) ? std::string_view(by_heads) : op.name;
  const EfficiencyPoint efficiency = profile_.efficiency_of(name, op.num_rows);
  OpTime time;
  double matrix = 0;
  for (std::size_t f = 0; f < op.cost.flops.size(); ++f) {
    if (op.cost.flops[f] > 0) matrix += op.cost.flops[f] / matrix_rate(static_cast<MathFormat>(f));
  }
  matrix /= efficiency.compute;
  const double scalar = op.cost.scalar_ops / (profile_.scalar_ops_per_second * efficiency.scalar);
  const auto known = profile_.operations.find(name);
  const bool overlaps = known != profile_.operations.end() && known->second.overlaps_scalar;
  double excess = 1;  // over the contract's work: a last wave that is not full, heads that are padding
  if (known != profile_.operations.end() && known->second.rows_per_tile > 0 && profile_.num_units > 0) {
    const double tiles = std::max(1.0, std::ceil(op.num_rows / known->second.rows_per_tile));
    const auto units = static_cast<double>(profile_.num_units);
    if (tiles > units) excess = std::ceil(tiles / units) * units / tiles;
  }
  if (known != profile_.operations.end() && known->second.heads_per_tile > 0 && op.num_heads > 0)
    excess *= padded(op.num_heads, known->second.heads_per_tile) / op.num_heads;
  time.compute_seconds = (overlaps ? std::max(matrix, scalar) : matrix + scalar) * excess;
  time.memory_seconds = op.cost.total_bytes() / (profile_.memory_bytes_per_second * efficiency.memory);
  time.static_seconds = efficiency.static_seconds >= 0 ? efficiency.static_seconds
                        : graph_                       ? profile_.graph_seconds
                                                       : profile_.eager_seconds;
  time.static_seconds *= op.num_kernels;
  const double work = std::max(time.compute_seconds, time.memory_seconds);
  time.seconds = time.static_seconds + work;
  // What was measured of an operation says more than what is predicted of its kernels.
  if (known == profile_.operations.end() && op.predicted_seconds) time.seconds = *op.predicted_seconds;
  // However little there is to do, half of it is not another kernel's time.
  if (graph_) time.seconds = std::max(time.seconds / 2, time.seconds - profile_.graph_overlap_seconds);
  time.bound = time.static_seconds > work                    ? Bound::kLatency
               : time.memory_seconds >= time.compute_seconds ? Bound::kMemory
                                                             : Bound::kCompute;
  return time;
}

LinkLevel TimeModel::level_of(std::int64_t group_size) const {
  BALEEN_CHECK(!profile_.links.empty());
  for (const LinkLevel& level : profile_.links) {
    if (group_size <= level.size) return level;
  }
  return profile_.links.back();
}

double TimeModel::collective_seconds(const RankMessage& collective, std::string_view operation) const {
  if (collective.group_size <= 1) return 0;
  const LinkLevel level = level_of(collective.group_size);
  const auto ranks = static_cast<double>(collective.group_size);
  const MessageTimes* const measured = profile_.times_of_message(operation, message_name(collective.kind));
  // What was measured is true of the innermost links alone.
  if (measured != nullptr && collective.group_size <= profile_.links.front().size) {
    const double further = std::max(0.0, ranks - static_cast<double>(measured->num_ranks));
    return measured->seconds_of(sent_bytes(collective, measured->whole_up_to_bytes)) +
           further * measured->seconds_per_further_rank;
  }
  double rate = level.bytes_per_second * level.efficiency;
  if (level.mesh && level.size > 1) rate *= (ranks - 1) / static_cast<double>(level.size - 1);
  const double latency = level.latency_seconds, bytes = collective.bytes, steps = std::log2(ranks);
  double seconds = 0;
  switch (collective.kind) {
    case MessageKind::kAllReduce:
      seconds = all_reduce_seconds(ranks, bytes, latency, rate);
      break;
    case MessageKind::kAllGather:
      seconds = std::min(ranks - 1, std::ceil(steps)) * latency + (ranks - 1) * bytes / rate;
      break;
    case MessageKind::kReduceScatter:
      seconds = std::min(ranks - 1, std::ceil(steps)) * latency + (ranks - 1) / ranks * bytes / rate;
      break;
    case MessageKind::kAllToAll:
      seconds = std::min(ranks - 1, std::ceil(steps)) * latency + bytes / rate;
      break;
    case MessageKind::kSend:
      seconds = latency + bytes / rate;
      break;
  }
  return seconds + profile_.collective_seconds;
}

}  // namespace baleen
