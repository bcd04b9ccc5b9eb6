#include "ops/dispatch/dispatch.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "numeric/block_scale.h"

namespace baleen {
namespace {

/// One assignment on its way: physical id, weight, then the row.
struct RowHeader {
  std::int32_t expert = 0;
  float weight = 0;
};

std::size_t row_bytes(const DispatchArgs& args) {
  return static_cast<std::size_t>(args.x.extent(1) * size_of(args.x.element_type()));
}

std::vector<std::byte> pack(const DispatchArgs& args, std::int64_t place) {
  const std::vector<SentRow> rows = rows_for(args.placement, args.ids, place);
  const std::size_t stride = sizeof(RowHeader) + row_bytes(args);
  std::vector<std::byte> bytes(rows.size() * stride);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto [row, slot] = rows[i];
    const RowHeader header{args.placement.physical(args.ids, row, slot), args.weights(row, slot)};
    std::byte* to = bytes.data() + i * stride;
    std::memcpy(to, &header, sizeof(header));
    std::memcpy(to + sizeof(header), args.x.slice(row, row + 1).address(), row_bytes(args));
  }
  return bytes;
}

/// Appends what the next member sent.
void unpack(const DispatchArgs& args, std::span<const std::byte> bytes) {
  const std::size_t stride = sizeof(RowHeader) + row_bytes(args);
  const auto count = static_cast<std::int64_t>(bytes.size() / stride);
  DispatchedRows& received = *args.received;
  BALEEN_CHECK_LE(received.num_rows + count, args.arrived.extent(0));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::byte* from = bytes.data() + static_cast<std::size_t>(i) * stride;
    const std::int64_t row = received.num_rows + i;
    RowHeader header;
    std::memcpy(&header, from, sizeof(header));
    args.arrived_ids(row, 0) = header.expert;
    args.arrived_weights(row, 0) = header.weight;
    std::memcpy(args.arrived.slice(row, row + 1).address(), from + sizeof(header), row_bytes(args));
  }
  received.num_rows += count;
  received.rows_from.push_back(count);
}

/// Sizes first, then rows.
void exchange_rows(const DispatchArgs& args, Communicator& communicator) {
  const RankGroup& stage = *args.placement.stage;
  const auto size = static_cast<std::size_t>(stage.size());
  std::vector<std::vector<std::byte>> sent(size), arrived(size);
  std::vector<std::int64_t> sent_sizes(size), arrived_sizes(size);
  std::vector<std::span<const std::byte>> send;
  std::vector<std::span<std::byte>> receive;
  for (std::size_t i = 0; i < size; ++i) {
    sent[i] = pack(args, static_cast<std::int64_t>(i));
    sent_sizes[i] = std::ssize(sent[i]);
    send.push_back(std::as_bytes(std::span(&sent_sizes[i], 1)));
    receive.push_back(std::as_writable_bytes(std::span(&arrived_sizes[i], 1)));
  }
  communicator.exchange(stage, send, receive);
  for (std::size_t i = 0; i < size; ++i) {
    arrived[i].resize(static_cast<std::size_t>(arrived_sizes[i]));
    send[i] = sent[i];
    receive[i] = arrived[i];
  }
  communicator.exchange(stage, send, receive);
  *args.received = {};
  for (const std::vector<std::byte>& bytes : arrived) unpack(args, bytes);
}

}  // namespace

void dispatch_ref(std::span<const DispatchArgs> ranks) {
  for (const DispatchArgs& to : ranks) {
    *to.received = {};
    for (const DispatchArgs& from : ranks) unpack(to, pack(from, to.placement.stage->place));
  }
}

}  // namespace baleen

namespace baleen::ops {

namespace {

/// With rows of `row_bytes`.
std::vector<RankMessage> messages_of(const DispatchArgs& args, double row_bytes) {
  /// Up to so many tokens a rank, every assignment is sent by itself to fixed places, as captured graphs need
  /// it; beyond, a token travels once to each rank that has experts of it.
  constexpr std::int64_t kMaxTokensByAssignment = 256;
  const ExpertRanks& placement = args.placement;
  const auto rows = static_cast<double>(args.x.extent(0)), chosen = static_cast<double>(args.ids.extent(1));
  const auto ranks = static_cast<double>(placement.ep);
  const double remote = (ranks - 1) / ranks;
  const double by_assignment = rows * chosen * row_bytes * remote;
  const double by_rank = rows * expected_ranks(static_cast<double>(placement.num_experts), ranks, chosen) *
                         remote * (row_bytes + 8 * chosen);
  return {{MessageKind::kAllToAll, placement.ep,
           args.x.extent(0) <= kMaxTokensByAssignment ? by_assignment : by_rank},
          {MessageKind::kAllGather, placement.moe_tp(), rows * chosen / ranks * row_bytes}};
}

double activation_row_bytes(const DispatchArgs& args) {
  return static_cast<double>(args.x.extent(1) * size_of(args.x.element_type()));
}

}  // namespace

std::vector<RankMessage> Dispatch::messages(const DispatchArgs& args) {
  return messages_of(args, args.sends_fp8 ? fp8_row_bytes(1, args.x.extent(1)) : activation_row_bytes(args));
}

std::vector<RankMessage> Dispatch::backward_messages(const DispatchArgs& args) {
  std::vector<RankMessage> messages = messages_of(args, activation_row_bytes(args));
  for (RankMessage& message : messages) message = backward_of(message);
  return messages;
}

std::span<const CpuVariant<Dispatch>> Dispatch::cpu_variants() {
  static constexpr std::array<CpuVariant<Dispatch>, 1> kVariants{
      {{.name = kReferenceVariant, .run = [](const DispatchArgs& args, CpuContext& context) {
          exchange_rows(args, communicator_of(context, kName));
        }}}};
  return kVariants;
}

}  // namespace baleen::ops
