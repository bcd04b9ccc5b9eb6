#include "ops/collectives/cuda/nccl_collectives.h"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "base/check.h"
#include "base/error.h"
#include "comm/peer/peer_memory.h"
#include "cuda/cuda_error.h"
#include "ops/collectives/cuda/exchange.h"
#include "ops/collectives/cuda/nccl_exchange.h"
#include "ops/collectives/cuda/view_bytes.h"

namespace baleen::BALEEN_ARCH {
namespace {

/// An all-reduce sends so much to everyone; of more, each rank adds up a part, which takes two exchanges.
constexpr std::int64_t kMaxWholeBytes = 256 << 10;

/// How many of `total` the piece that starts at `begin` has, `piece` at most.
std::int64_t piece_of(std::int64_t total, std::int64_t begin, std::int64_t piece) {
  return std::clamp<std::int64_t>(total - begin, 0, piece);
}

/// What a sum needs: member i gets vectors [first[i], first[i] + count[i]) of it, this rank at y.
struct SumParts {
  const RankGroup& group;
  const std::byte* x;
  std::vector<std::int64_t> first, count;
  std::byte* y;
  ElementType y_type;
  Precision precision;
};

void add_up(const SumParts& sum, const NcclRank& nccl, CudaContext& context) {
  const std::int64_t size = sum.group.size(), own = sum.group.place;
  const std::int64_t piece = NcclRank::kBufferBytes / kVectorBytes / size;
  const std::int64_t own_first = sum.first[static_cast<std::size_t>(own)];
  const std::int64_t own_count = sum.count[static_cast<std::size_t>(own)];
  const std::int64_t most = std::ranges::max(sum.count);
  for (std::int64_t begin = 0; begin < most; begin += piece) {
    const std::int64_t arriving = piece_of(own_count, begin, piece);
    NcclExchange exchange(nccl, sum.group);
    for (std::int64_t i = 0; i < size; ++i) {
      if (i == own) continue;
      const auto member = static_cast<std::size_t>(i);
      exchange.send(i, sum.x + (sum.first[member] + begin) * kVectorBytes,
                    piece_of(sum.count[member], begin, piece) * kVectorBytes);
      exchange.receive(i, nccl.buffer() + i * piece * kVectorBytes, arriving * kVectorBytes);
    }
    exchange.run(context);
    add_arrived({.own = reinterpret_cast<const uint4*>(sum.x + (own_first + begin) * kVectorBytes),
                 .arrived = reinterpret_cast<const uint4*>(nccl.buffer()),
                 .stride = piece,
                 .size = static_cast<std::int32_t>(size),
                 .place = static_cast<std::int32_t>(own),
                 .count = arriving,
                 .y = sum.y + begin * kVectorFloats * size_of(sum.y_type),
                 .rounds = sum.precision != Precision::kExact,
                 .y_is_bf16 = sum.y_type == ElementType::kBf16},
                context);
  }
}

/// Members give each other their rows.
void gather_rows(const AllGatherArgs& args, const NcclRank& nccl, CudaContext& context) {
  NcclExchange exchange(nccl, *args.group);
  for (std::int64_t i = 0; i < args.group->size(); ++i) {
    const RowRange rows = args.rows[static_cast<std::size_t>(i)];
    std::byte* const there = args.y.address() + rows.begin * row_bytes(args.y);
    if (i == args.group->place) {
      if (there == args.x.address() || args.x.empty()) continue;
      check_cuda(cudaMemcpyAsync(there, args.x.address(), static_cast<std::size_t>(size_in_bytes(args.x)),
                                 cudaMemcpyDeviceToDevice, context.stream),
                 "copying rows");
    } else {
      exchange.send(i, args.x.address(), size_in_bytes(args.x));
      exchange.receive(i, there, rows.size() * row_bytes(args.y));
    }
  }
  exchange.run(context);
}

void gather_columns(const AllGatherArgs& args, const NcclRank& nccl, CudaContext& context) {
  const std::int64_t size = args.group->size(), own = args.group->place, num_rows = args.y.extent(0);
  const std::int64_t columns = (args.y.extent(1) + size - 1) / size;
  const std::int64_t part_bytes = columns * size_of(args.y.element_type()), x_row = row_bytes(args.x);
  const std::int64_t piece = std::max<std::int64_t>(1, NcclRank::kBufferBytes / (size * part_bytes));
  BALEEN_CHECK_LE(size * part_bytes, NcclRank::kBufferBytes);
  for (std::int64_t begin = 0; begin < num_rows; begin += piece) {
    const std::int64_t rows = piece_of(num_rows, begin, piece);
    ColumnParts parts{.matrix = args.y.address() + begin * row_bytes(args.y),
                      .row_vectors = row_bytes(args.y) / kVectorBytes,
                      .part_vectors = part_bytes / kVectorBytes,
                      .rows = rows,
                      .size = static_cast<std::int32_t>(size),
                      .place = static_cast<std::int32_t>(own),
                      .own = const_cast<std::byte*>(args.x.address()) + begin * x_row,
                      .parts = nccl.buffer(),
                      .stride = rows * part_bytes};
    NcclExchange exchange(nccl, *args.group);
    for (std::int64_t i = 0; i < size; ++i) {
      if (i == own) continue;
      exchange.send(i, parts.own, rows * x_row);
      exchange.receive(i, parts.parts + i * parts.stride, rows * parts.width(i) * kVectorBytes);
    }
    exchange.run(context);
    place_columns(parts, context);
  }
}

}  // namespace

const NcclRank& nccl_of(const CudaContext& context, std::string_view operation) {
  if (context.peers == nullptr || context.peers->nccl() == nullptr)
    fail("{}: this GPU is not connected to those of other ranks by NCCL", operation);
  return *context.peers->nccl();
}

void nccl_all_reduce(const AllReduceArgs& args, CudaContext& context) {
  const NcclRank& nccl = nccl_of(context, ops::AllReduce::kName);
  if (args.x.empty()) return;
  const auto size = static_cast<std::size_t>(args.group->size());
  const auto own = static_cast<std::size_t>(args.group->place);
  const std::int64_t total = args.x.size() / kVectorFloats;
  SumParts sum{.group = *args.group,
               .x = args.x.address(),
               .first = std::vector<std::int64_t>(size),
               .count = std::vector<std::int64_t>(size, total),
               .y = args.y.address(),
               .y_type = args.y.element_type(),
               .precision = args.precision};
  if (size_in_bytes(args.x) <= kMaxWholeBytes) return add_up(sum, nccl, context);
  constexpr std::int64_t kPartVectors = 2;  // a vector of BF16 values
  const auto members = static_cast<std::int64_t>(size);
  const std::int64_t part = (total + members * kPartVectors - 1) / (members * kPartVectors) * kPartVectors;
  for (std::size_t i = 0; i < size; ++i) {
    sum.first[i] = std::min(static_cast<std::int64_t>(i) * part, total);
    sum.count[i] = std::min(static_cast<std::int64_t>(i + 1) * part, total) - sum.first[i];
  }
  const std::int64_t y_bytes = kVectorFloats * size_of(args.y.element_type());  // of a vector of x
  sum.y += sum.first[own] * y_bytes;
  add_up(sum, nccl, context);
  NcclExchange gather(nccl, *args.group);
  for (std::size_t i = 0; i < size; ++i) {
    if (i == own) continue;
    gather.send(static_cast<std::int64_t>(i), sum.y, sum.count[own] * y_bytes);
    gather.receive(static_cast<std::int64_t>(i), args.y.address() + sum.first[i] * y_bytes,
                   sum.count[i] * y_bytes);
  }
  gather.run(context);
}

void nccl_reduce_scatter(const ReduceScatterArgs& args, CudaContext& context) {
  const NcclRank& nccl = nccl_of(context, ops::ReduceScatter::kName);
  if (args.x.empty()) return;
  SumParts sum{.group = *args.group,
               .x = args.x.address(),
               .first = {},
               .count = {},
               .y = args.y.address(),
               .y_type = args.y.element_type(),
               .precision = args.precision};
  const std::int64_t row_vectors = args.x.extent(1) / kVectorFloats;
  for (const RowRange& rows : args.rows) {
    sum.first.push_back(rows.begin * row_vectors);
    sum.count.push_back(rows.size() * row_vectors);
  }
  add_up(sum, nccl, context);
}

void nccl_all_gather(const AllGatherArgs& args, CudaContext& context) {
  const NcclRank& nccl = nccl_of(context, ops::AllGather::kName);
  if (args.y.empty()) return;
  if (args.rows.empty()) {
    gather_columns(args, nccl, context);
  } else {
    gather_rows(args, nccl, context);
  }
}

void nccl_all_to_all(const AllToAllArgs& args, CudaContext& context) {
  const NcclRank& nccl = nccl_of(context, ops::AllToAll::kName);
  if (args.x.empty()) return;
  const std::int64_t size = args.group->size(), own = args.group->place, num_rows = args.x.extent(0);
  const std::int64_t part_bytes = row_bytes(args.y);
  BALEEN_CHECK_LE(size * part_bytes, NcclRank::kBufferBytes);
  const std::int64_t piece = NcclRank::kBufferBytes / (size * part_bytes);
  for (std::int64_t begin = 0; begin < num_rows; begin += piece) {
    const std::int64_t rows = piece_of(num_rows, begin, piece);
    const auto arrival = [&](std::int64_t member) {
      return args.y.address() + (member * num_rows + begin) * part_bytes;
    };
    const ColumnParts parts{.matrix = const_cast<std::byte*>(args.x.address()) + begin * row_bytes(args.x),
                            .row_vectors = row_bytes(args.x) / kVectorBytes,
                            .part_vectors = part_bytes / kVectorBytes,
                            .rows = rows,
                            .size = static_cast<std::int32_t>(size),
                            .place = static_cast<std::int32_t>(own),
                            .own = arrival(own),
                            .parts = nccl.buffer(),
                            .stride = rows * part_bytes};
    cut_columns(parts, context);
    NcclExchange exchange(nccl, *args.group);
    for (std::int64_t i = 0; i < size; ++i) {
      if (i == own) continue;
      exchange.send(i, parts.parts + i * parts.stride, parts.stride);
      exchange.receive(i, arrival(i), parts.stride);
    }
    exchange.run(context);
  }
}

void nccl_send(const SendArgs& args, CudaContext& context) {
  NcclExchange exchange(nccl_of(context, ops::Send::kName), *args.pair);
  exchange.send(1 - args.pair->place, args.x.address(), size_in_bytes(args.x));
  exchange.run(context);
}

void nccl_receive(const ReceiveArgs& args, CudaContext& context) {
  NcclExchange exchange(nccl_of(context, ops::Receive::kName), *args.pair);
  exchange.receive(1 - args.pair->place, args.y.address(), size_in_bytes(args.y));
  exchange.run(context);
}

}  // namespace baleen::BALEEN_ARCH
