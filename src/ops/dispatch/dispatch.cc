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

std::vector<std::byte> pack_assignments(const DispatchArgs& args, std::int64_t place) {
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

/// A token on its way: logical id and weight of each slot, then the row.
std::vector<std::byte> pack_tokens(const DispatchArgs& args) {
  const std::int64_t num_rows = args.x.extent(0), num_slots = args.ids.extent(1);
  const std::size_t header_bytes = static_cast<std::size_t>(num_slots) * sizeof(RowHeader);
  const std::size_t stride = header_bytes + row_bytes(args);
  std::vector<std::byte> bytes(static_cast<std::size_t>(num_rows) * stride);
  for (std::int64_t row = 0; row < num_rows; ++row) {
    std::byte* to = bytes.data() + static_cast<std::size_t>(row) * stride;
    for (std::int64_t slot = 0; slot < num_slots; ++slot) {
      const RowHeader header{args.ids(row, slot), args.weights(row, slot)};
      std::memcpy(to + static_cast<std::size_t>(slot) * sizeof(header), &header, sizeof(header));
    }
    std::memcpy(to + header_bytes, args.x.slice(row, row + 1).address(), row_bytes(args));
  }
  return bytes;
}

/// The next row that arrives; its ids and weights are the caller's.
std::int64_t append_row(const DispatchArgs& args, const std::byte* row) {
  DispatchedRows& received = *args.received;
  BALEEN_CHECK_LT(received.num_rows, args.arrived.extent(0));
  const std::int64_t at = received.num_rows++;
  std::memcpy(args.arrived.slice(at, at + 1).address(), row, row_bytes(args));
  ++received.rows_from.back();
  return at;
}

/// Appends what the next member sent.
void unpack_assignments(const DispatchArgs& args, std::span<const std::byte> bytes) {
  const std::size_t stride = sizeof(RowHeader) + row_bytes(args);
  args.received->rows_from.push_back(0);
  for (std::size_t from = 0; from < bytes.size(); from += stride) {
    RowHeader header;
    std::memcpy(&header, bytes.data() + from, sizeof(header));
    const std::int64_t at = append_row(args, bytes.data() + from + sizeof(header));
    args.arrived_ids(at, 0) = header.expert;
    args.arrived_weights(at, 0) = header.weight;
  }
}

/// Appends the next member's tokens, or of them the assignments of this rank's experts. Which copy of an
/// expert computes an assignment depends on its row at the sender, which is its row here.
void unpack_tokens(const DispatchArgs& args, std::span<const std::byte> bytes) {
  const std::int64_t num_slots = args.ids.extent(1);
  const std::size_t header_bytes = static_cast<std::size_t>(num_slots) * sizeof(RowHeader);
  const std::size_t stride = header_bytes + row_bytes(args), num_rows = bytes.size() / stride;
  std::vector<std::int32_t> logical(num_rows * static_cast<std::size_t>(num_slots));
  std::vector<float> weights(logical.size());
  for (std::size_t i = 0; i < logical.size(); ++i) {
    const auto slots = static_cast<std::size_t>(num_slots);
    RowHeader header;
    std::memcpy(&header, bytes.data() + i / slots * stride + i % slots * sizeof(header), sizeof(header));
    logical[i] = header.expert;
    weights[i] = header.weight;
  }
  const View<const std::int32_t, 2> ids(logical.data(), {static_cast<std::int64_t>(num_rows), num_slots});
  const auto place_row = [&](std::int64_t row) {
    return append_row(args, bytes.data() + static_cast<std::size_t>(row) * stride + header_bytes);
  };
  const auto weight = [&](std::int64_t row, std::int64_t slot) {
    return weights[static_cast<std::size_t>(row * num_slots + slot)];
  };
  args.received->rows_from.push_back(0);
  if (args.way != DispatchWay::kGatheredTokens) {
    for (const auto [row, slot] : rows_for(args.placement, ids, args.placement.stage->place)) {
      const std::int64_t at = place_row(row);
      args.arrived_ids(at, 0) = args.placement.physical(ids, row, slot);
      args.arrived_weights(at, 0) = weight(row, slot);
    }
    return;
  }
  for (std::int64_t row = 0; row < ids.extent(0); ++row) {
    const std::int64_t at = place_row(row);
    for (std::int64_t slot = 0; slot < num_slots; ++slot) {
      args.arrived_ids(at, slot) = args.placement.physical(ids, row, slot);
      args.arrived_weights(at, slot) = weight(row, slot);
    }
  }
}

/// What each member sends this one. Sizes first: only the sender knows how much it has.
std::vector<std::vector<std::byte>> exchange_bytes(const RankGroup& stage,
                                                   const std::vector<std::span<const std::byte>>& sent,
                                                   Communicator& communicator) {
  std::vector<std::vector<std::byte>> arrived(sent.size());
  std::vector<std::int64_t> sent_sizes(sent.size()), arrived_sizes(sent.size());
  std::vector<std::span<const std::byte>> sizes;
  std::vector<std::span<std::byte>> receive;
  for (std::size_t i = 0; i < sent.size(); ++i) {
    sent_sizes[i] = std::ssize(sent[i]);
    sizes.push_back(std::as_bytes(std::span(&sent_sizes[i], 1)));
    receive.push_back(std::as_writable_bytes(std::span(&arrived_sizes[i], 1)));
  }
  communicator.exchange(stage, sizes, receive);
  for (std::size_t i = 0; i < sent.size(); ++i) {
    arrived[i].resize(static_cast<std::size_t>(arrived_sizes[i]));
    receive[i] = arrived[i];
  }
  communicator.exchange(stage, sent, receive);
  return arrived;
}

void dispatch_assignments(const DispatchArgs& args, Communicator& communicator) {
  const RankGroup& stage = *args.placement.stage;
  std::vector<std::vector<std::byte>> packed;
  for (std::int64_t place = 0; place < stage.size(); ++place) packed.push_back(pack_assignments(args, place));
  *args.received = {};
  for (const std::vector<std::byte>& bytes :
       exchange_bytes(stage, {packed.begin(), packed.end()}, communicator))
    unpack_assignments(args, bytes);
}

void gather_tokens(const DispatchArgs& args, Communicator& communicator) {
  const RankGroup& stage = *args.placement.stage;
  const std::vector<std::byte> packed = pack_tokens(args);
  const std::vector<std::span<const std::byte>> sent(static_cast<std::size_t>(stage.size()), packed);
  *args.received = {};
  for (const std::vector<std::byte>& bytes : exchange_bytes(stage, sent, communicator))
    unpack_tokens(args, bytes);
}

}  // namespace

void dispatch_ref(std::span<const DispatchArgs> ranks) {
  for (const DispatchArgs& to : ranks) {
    *to.received = {};
    for (const DispatchArgs& from : ranks) {
      if (to.way == DispatchWay::kAssignments) {
        unpack_assignments(to, pack_assignments(from, to.placement.stage->place));
      } else {
        unpack_tokens(to, pack_tokens(from));
      }
    }
  }
}

}  // namespace baleen

namespace baleen::ops {

namespace {

/// Of assignments, with rows of `row_bytes`.
std::vector<RankMessage> assignment_messages(const DispatchArgs& args, double row_bytes) {
  // In captured steps every assignment is sent by itself to fixed places; in larger ones a token travels once
  // to each rank that has experts of it.
  const ExpertRanks& placement = args.placement;
  const auto rows = static_cast<double>(args.x.extent(0)), chosen = static_cast<double>(args.ids.extent(1));
  const auto ranks = static_cast<double>(placement.ep);
  const double remote = (ranks - 1) / ranks;
  const double by_assignment = rows * chosen * row_bytes * remote;
  const double by_rank = rows * expected_ranks(static_cast<double>(placement.num_experts), ranks, chosen) *
                         remote * (row_bytes + 8 * chosen);
  return {{MessageKind::kAllToAll, placement.ep,
           args.x.extent(0) <= kMaxCapturedTokens ? by_assignment : by_rank},
          {MessageKind::kAllGather, placement.moe_tp(), rows * chosen / ranks * row_bytes}};
}

double activation_row_bytes(const DispatchArgs& args) {
  return static_cast<double>(args.x.extent(1) * size_of(args.x.element_type()));
}

std::vector<RankMessage> messages_of_rows(const DispatchArgs& args, double row_bytes) {
  if (args.way == DispatchWay::kAssignments) return assignment_messages(args, row_bytes);
  const double header_bytes = sizeof(RowHeader) * static_cast<double>(args.ids.extent(1));
  return {{MessageKind::kAllGather, args.placement.stage->size(),
           static_cast<double>(args.x.extent(0)) * (row_bytes + header_bytes)}};
}

}  // namespace

std::vector<RankMessage> Dispatch::messages(const DispatchArgs& args) {
  const bool fp8 = args.sends_fp8 && sends_fp8_rows(args.way);
  return messages_of_rows(
      args, fp8 ? fp8_row_bytes(1, args.x.extent(1), args.arrived_fp8.group) : activation_row_bytes(args));
}

std::vector<RankMessage> Dispatch::backward_messages(const DispatchArgs& args) {
  std::vector<RankMessage> messages = messages_of_rows(args, activation_row_bytes(args));
  for (RankMessage& message : messages) message = backward_of(message);
  return messages;
}

void Dispatch::accesses(const DispatchArgs& args, Accesses& to) {
  to.read(args.x, args.ids, args.weights).read(args.x_fp8, args.x.extent(0), args.x.extent(1));
  to.write(args.arrived, args.arrived_ids, args.arrived_weights)
      .write(args.arrived_fp8, args.arrived.extent(0), args.arrived.extent(1));
}

std::span<const CpuVariant<Dispatch>> Dispatch::cpu_variants() {
  static constexpr std::array<CpuVariant<Dispatch>, 1> kVariants{
      {{.name = kReferenceVariant, .run = [](const DispatchArgs& args, CpuContext& context) {
          Communicator& communicator = communicator_of(context, kName);
          if (args.way == DispatchWay::kAssignments) {
            dispatch_assignments(args, communicator);
          } else {
            gather_tokens(args, communicator);
          }
        }}}};
  return kVariants;
}

}  // namespace baleen::ops
