#include "ops/collectives/all_reduce.h"

#include <array>

#include "base/check.h"
#include "base/error.h"
#include "numeric/bf16.h"

namespace baleen {

Communicator& communicator_of(const CpuContext& context, std::string_view operation) {
  if (context.communicator == nullptr) fail("{}: this device has no communicator to other ranks", operation);
  return *context.communicator;
}

namespace {

using Partial = ConstActivations<2>;

/// `rows` of each of `parts`, added in their order.
void sum_rows(std::span<const Partial> parts, RowRange rows, Precision precision, const Activations<2>& y) {
  BALEEN_CHECK_EQ(y.extent(0), rows.size());
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    for (std::int64_t i = 0; i < y.extent(1); ++i) {
      float sum = parts.front()(row, i);
      for (const Partial& part : parts.subspan(1)) sum += part(row, i);
      y(row - rows.begin, i) = precision == Precision::kExact ? sum : round_bf16(sum);
    }
  }
}

std::span<const std::byte> bytes_of_rows(const Partial& x, RowRange rows) {
  const std::int64_t row_bytes = x.extent(1) * size_of(x.element_type());
  return {x.address() + rows.begin * row_bytes, static_cast<std::size_t>(rows.size() * row_bytes)};
}

/// Everyone's partial sums of the rows that this rank is to get, exchanged and added.
void exchange_and_sum(const RankGroup& group, const Partial& x, std::span<const RowRange> rows,
                      Precision precision, const Activations<2>& y, Communicator& communicator) {
  const auto size = static_cast<std::size_t>(group.size());
  const RowRange own = rows[static_cast<std::size_t>(group.place)];
  const std::int64_t width = x.extent(1);
  std::vector<float> arrived(size * static_cast<std::size_t>(own.size() * width));
  std::vector<std::span<const std::byte>> send;
  std::vector<std::span<std::byte>> receive;
  std::vector<Partial> parts;
  for (std::size_t i = 0; i < size; ++i) {
    const std::span<float> part = std::span(arrived).subspan(i * static_cast<std::size_t>(own.size() * width),
                                                             static_cast<std::size_t>(own.size() * width));
    send.push_back(bytes_of_rows(x, rows[i]));
    receive.push_back(std::as_writable_bytes(part));
    parts.emplace_back(part.data(), Partial::Extents{own.size(), width});
  }
  communicator.exchange(group, send, receive);
  sum_rows(parts, {0, own.size()}, precision, y);
}

std::vector<RowRange> all_rows(const AllReduceArgs& args) {
  return std::vector<RowRange>(static_cast<std::size_t>(args.group->size()), {0, args.x.extent(0)});
}

}  // namespace

void all_reduce_ref(std::span<const AllReduceArgs> ranks) {
  std::vector<Partial> parts;
  for (const AllReduceArgs& args : ranks) parts.push_back(args.x);
  for (const AllReduceArgs& args : ranks) sum_rows(parts, {0, args.x.extent(0)}, args.precision, args.y);
}

void reduce_scatter_ref(std::span<const ReduceScatterArgs> ranks) {
  std::vector<Partial> parts;
  for (const ReduceScatterArgs& args : ranks) parts.push_back(args.x);
  for (const ReduceScatterArgs& args : ranks) {
    sum_rows(parts, args.rows[static_cast<std::size_t>(args.group->place)], args.precision, args.y);
  }
}

}  // namespace baleen

namespace baleen::ops {

std::vector<RankMessage> AllReduce::messages(const AllReduceArgs& args) {
  return {{MessageKind::kAllReduce, args.group->size(), bytes_of(args.x)}};
}

std::vector<RankMessage> ReduceScatter::messages(const ReduceScatterArgs& args) {
  return {{MessageKind::kReduceScatter, args.group->size(), bytes_of(args.x)}};
}

void AllReduce::accesses(const AllReduceArgs& args, Accesses& to) { to.read(args.x).write(args.y); }

std::span<const CpuVariant<AllReduce>> AllReduce::cpu_variants() {
  static constexpr std::array<CpuVariant<AllReduce>, 1> kVariants{
      {{.name = kReferenceVariant, .run = [](const AllReduceArgs& args, CpuContext& context) {
          exchange_and_sum(*args.group, args.x, all_rows(args), args.precision, args.y,
                           communicator_of(context, kName));
        }}}};
  return kVariants;
}

void ReduceScatter::accesses(const ReduceScatterArgs& args, Accesses& to) { to.read(args.x).write(args.y); }

std::span<const CpuVariant<ReduceScatter>> ReduceScatter::cpu_variants() {
  static constexpr std::array<CpuVariant<ReduceScatter>, 1> kVariants{
      {{.name = kReferenceVariant, .run = [](const ReduceScatterArgs& args, CpuContext& context) {
          exchange_and_sum(*args.group, args.x, args.rows, args.precision, args.y,
                           communicator_of(context, kName));
        }}}};
  return kVariants;
}

}  // namespace baleen::ops
