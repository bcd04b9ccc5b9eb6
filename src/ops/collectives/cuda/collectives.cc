#include "ops/collectives/cuda/collectives.h"

#include <algorithm>

#include "base/check.h"
#include "base/error.h"
#include "comm/peer/peer_memory.h"
#include "ops/collectives/cuda/exchange.h"
#include "ops/collectives/cuda/view_bytes.h"

namespace baleen::BALEEN_ARCH {
namespace {

/// Kernels read what they share; the descriptions of rows have one kind of pointer.
std::byte* writable(const std::byte* data) { return const_cast<std::byte*>(data); }

VectorRows dense_rows(const std::byte* data, std::int64_t bytes) {
  return {writable(data), bytes, 1, static_cast<std::int32_t>(bytes / kVectorBytes)};
}

VectorRows strided_rows(const std::byte* data, std::int64_t stride, std::int64_t rows, std::int64_t bytes) {
  return {writable(data), stride, static_cast<std::int32_t>(rows),
          static_cast<std::int32_t>(bytes / kVectorBytes)};
}

std::byte* offset(std::int64_t bytes) { return reinterpret_cast<std::byte*>(bytes); }

SumExchange sum_of(const RankGroup& group, const ConstActivations<2>& x, const Activations<2>& y,
                   Precision precision, const PeerRank& peers) {
  return {.peers = peers.view(group),
          .x = reinterpret_cast<const float4*>(x.data()),
          .y = y.address(),
          .rounds = precision != Precision::kExact,
          .y_is_bf16 = y.element_type() == ElementType::kBf16};
}

/// Members share the sum, then give each other their parts.
void all_reduce_in_parts(const AllReduceArgs& args, const PeerRank& peers, CudaContext& context) {
  constexpr std::int64_t kPartVectors = 2;  // a vector of BF16 values
  SumExchange sum = sum_of(*args.group, args.x, args.y, args.precision, peers);
  CopyExchange gather{.peers = sum.peers, .shared = args.y.address()};
  const std::int64_t total = args.x.size() / kVectorFloats, size = args.group->size();
  const std::int64_t part = (total + size * kPartVectors - 1) / (size * kPartVectors) * kPartVectors;
  const std::int64_t y_bytes = kVectorFloats * size_of(args.y.element_type());  // of a vector of x
  for (std::int64_t i = 0; i < size; ++i) {
    sum.first[i] = std::min(i * part, total);
    sum.count[i] = std::min((i + 1) * part, total) - sum.first[i];
  }
  const std::int64_t own_first = sum.first[args.group->place], own_count = sum.count[args.group->place];
  sum.y += own_first * y_bytes;
  for (std::int64_t i = 0; i < size; ++i) {
    gather.send[i] = dense_rows(sum.y, own_count * y_bytes);
    gather.from[i] = dense_rows(offset(sum.first[i] * y_bytes), sum.count[i] * y_bytes);
    gather.to[i] = dense_rows(args.y.address() + sum.first[i] * y_bytes, sum.count[i] * y_bytes);
  }
  run_exchange(sum, way_for(part * kVectorBytes), context);
  run_exchange(gather, way_for(part * y_bytes), context);
}

/// Calls `exchange` with the begin and the bytes of each part of a message: the whole of it, or as much at a
/// time as packets carry where ranks do not reach each other's arrays. Both ends cut it alike.
template <class Exchange>
void for_each_part(const PeerView& peers, std::int64_t bytes, Exchange&& exchange) {
  const std::int64_t most = peers.packets_only ? kMaxPushedBytes : bytes;
  std::int64_t first = 0;
  do {
    const std::int64_t part = std::min(most, bytes - first);
    exchange(first, part);
    first += part;
  } while (first < bytes);
}

/// Of exchanges that know no other way than by address.
const PeerRank& reaching_peers_of(const CudaContext& context, std::string_view operation) {
  const PeerRank& peers = peers_of(context, operation);
  BALEEN_CHECK(!peers.packets_only());
  return peers;
}

}  // namespace

const PeerRank& peers_of(const CudaContext& context, std::string_view operation) {
  if (context.peers == nullptr) fail("{}: this GPU is not connected to those of other ranks", operation);
  return *context.peers;
}

void all_reduce(const AllReduceArgs& args, CudaContext& context) {
  const PeerRank& peers = reaching_peers_of(context, ops::AllReduce::kName);
  if (args.x.empty()) return;
  if (way_for(size_in_bytes(args.x)) != ExchangeWay::kPushed)
    return all_reduce_in_parts(args, peers, context);
  SumExchange sum = sum_of(*args.group, args.x, args.y, args.precision, peers);
  std::fill_n(sum.count, args.group->size(), args.x.size() / kVectorFloats);
  run_exchange(sum, ExchangeWay::kPushed, context);
}

void reduce_scatter(const ReduceScatterArgs& args, CudaContext& context) {
  const PeerRank& peers = reaching_peers_of(context, ops::ReduceScatter::kName);
  if (args.x.empty()) return;
  SumExchange sum = sum_of(*args.group, args.x, args.y, args.precision, peers);
  const std::int64_t row_vectors = args.x.extent(1) / kVectorFloats;
  std::int64_t largest = 0;
  for (std::size_t i = 0; i < args.rows.size(); ++i) {
    sum.first[i] = args.rows[i].begin * row_vectors;
    sum.count[i] = args.rows[i].size() * row_vectors;
    largest = std::max(largest, sum.count[i] * kVectorBytes);
  }
  run_exchange(sum, way_for(largest), context);
}

void all_gather(const AllGatherArgs& args, CudaContext& context) {
  const PeerRank& peers = reaching_peers_of(context, ops::AllGather::kName);
  if (args.y.empty()) return;
  CopyExchange copy{.peers = peers.view(*args.group), .shared = args.x.address()};
  const std::int64_t size = args.group->size(), y_row = row_bytes(args.y);
  const std::int64_t part_columns = (args.y.extent(1) + size - 1) / size;
  std::int64_t largest = 0;
  for (std::int64_t i = 0; i < size; ++i) {
    copy.send[i] = dense_rows(args.x.address(), size_in_bytes(args.x));
    if (!args.rows.empty()) {
      const RowRange rows = args.rows[static_cast<std::size_t>(i)];
      copy.to[i] = dense_rows(args.y.address() + rows.begin * y_row, rows.size() * y_row);
      copy.from[i] = dense_rows(nullptr, rows.size() * y_row);
      largest = std::max(largest, rows.size() * y_row);
    } else {
      const std::int64_t element = size_of(args.y.element_type());
      const std::int64_t first = std::min(i * part_columns, args.y.extent(1));
      const std::int64_t bytes = (std::min(first + part_columns, args.y.extent(1)) - first) * element;
      copy.to[i] = strided_rows(args.y.address() + first * element, y_row, args.y.extent(0), bytes);
      copy.from[i] = strided_rows(nullptr, bytes, args.y.extent(0), bytes);
      copy.send[i] = strided_rows(args.x.address(), row_bytes(args.x), args.x.extent(0), row_bytes(args.x));
      largest = std::max(largest, args.y.extent(0) * bytes);
    }
  }
  run_exchange(copy, way_for(largest), context);
}

void all_to_all(const AllToAllArgs& args, CudaContext& context) {
  const PeerRank& peers = reaching_peers_of(context, ops::AllToAll::kName);
  if (args.x.empty()) return;
  CopyExchange copy{.peers = peers.view(*args.group), .shared = args.x.address()};
  const std::int64_t rows = args.x.extent(0), x_row = row_bytes(args.x), part = row_bytes(args.y);
  for (std::int64_t i = 0; i < args.group->size(); ++i) {
    copy.send[i] = strided_rows(args.x.address() + i * part, x_row, rows, part);
    copy.from[i] = strided_rows(offset(args.group->place * part), x_row, rows, part);
    copy.to[i] = strided_rows(args.y.address() + i * rows * part, part, rows, part);
  }
  run_exchange(copy, way_for(rows * part), context);
}

void send(const SendArgs& args, CudaContext& context) {
  const PeerRank& peers = peers_of(context, ops::Send::kName);
  CopyExchange copy{.peers = peers.view(*args.pair), .shared = args.x.address()};
  const int receiver = args.pair->place == 0 ? 1 : 0;
  for_each_part(copy.peers, size_in_bytes(args.x), [&](std::int64_t first, std::int64_t bytes) {
    copy.send[receiver] = dense_rows(args.x.address() + first, bytes);
    run_exchange(copy, way_for(bytes), context);
  });
}

void receive(const ReceiveArgs& args, CudaContext& context) {
  const PeerRank& peers = peers_of(context, ops::Receive::kName);
  CopyExchange copy{.peers = peers.view(*args.pair)};
  const int sender = args.pair->place == 0 ? 1 : 0;
  for_each_part(copy.peers, size_in_bytes(args.y), [&](std::int64_t first, std::int64_t bytes) {
    copy.from[sender] = dense_rows(nullptr, bytes);
    copy.to[sender] = dense_rows(args.y.address() + first, bytes);
    run_exchange(copy, way_for(bytes), context);
  });
}

}  // namespace baleen::BALEEN_ARCH
