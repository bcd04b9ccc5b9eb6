#include "ops/collectives/all_gather.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"

namespace baleen {
namespace {

/// Columns of y that member `place` has.
RowRange columns_of(const AllGatherArgs& args, std::int64_t place) {
  const std::int64_t width = (args.y.extent(1) + args.group->size() - 1) / args.group->size();
  return {std::min(place * width, args.y.extent(1)), std::min((place + 1) * width, args.y.extent(1))};
}

std::int64_t row_bytes(const Activations<2>& y) { return y.extent(1) * size_of(y.element_type()); }

/// The place in y of member `place`'s rows.
std::span<std::byte> rows_of(const AllGatherArgs& args, std::size_t place) {
  const RowRange rows = args.rows[place];
  return {args.y.address() + rows.begin * row_bytes(args.y),
          static_cast<std::size_t>(rows.size() * row_bytes(args.y))};
}

/// Puts a dense part into its columns of y.
void place_columns(const AllGatherArgs& args, std::int64_t place, const std::byte* part) {
  const RowRange columns = columns_of(args, place);
  const std::int64_t element = size_of(args.y.element_type());
  const auto bytes = static_cast<std::size_t>(columns.size() * element);
  for (std::int64_t row = 0; row < args.y.extent(0); ++row) {
    std::memcpy(args.y.address() + row * row_bytes(args.y) + columns.begin * element,
                part + static_cast<std::size_t>(row) * bytes, bytes);
  }
}

std::span<const std::byte> bytes_of_part(const AllGatherArgs& args) {
  return {args.x.address(), static_cast<std::size_t>(args.x.size() * size_of(args.x.element_type()))};
}

void gather(const AllGatherArgs& args, Communicator& communicator) {
  const auto size = static_cast<std::size_t>(args.group->size());
  const std::vector<std::span<const std::byte>> send(size, bytes_of_part(args));
  std::vector<std::span<std::byte>> receive;
  std::vector<std::vector<std::byte>> parts(size);
  for (std::size_t i = 0; i < size; ++i) {
    if (args.rows.empty()) {
      parts[i].resize(
          static_cast<std::size_t>(args.y.extent(0) * columns_of(args, static_cast<std::int64_t>(i)).size() *
                                   size_of(args.y.element_type())));
      receive.emplace_back(parts[i]);
    } else {
      receive.push_back(rows_of(args, i));
    }
  }
  communicator.exchange(*args.group, send, receive);
  if (!args.rows.empty()) return;
  for (std::size_t i = 0; i < size; ++i) place_columns(args, static_cast<std::int64_t>(i), parts[i].data());
}

}  // namespace

void all_gather_ref(std::span<const AllGatherArgs> ranks) {
  for (const AllGatherArgs& to : ranks) {
    for (const AllGatherArgs& from : ranks) {
      if (to.rows.empty()) {
        place_columns(to, from.group->place, from.x.address());
      } else {
        std::ranges::copy(bytes_of_part(from),
                          rows_of(to, static_cast<std::size_t>(from.group->place)).begin());
      }
    }
  }
}

}  // namespace baleen

namespace baleen::ops {

std::vector<RankMessage> AllGather::messages(const AllGatherArgs& args) {
  return {{MessageKind::kAllGather, args.group->size(), bytes_of(args.x)}};
}

void AllGather::accesses(const AllGatherArgs& args, Accesses& to) { to.read(args.x).write(args.y); }

std::span<const CpuVariant<AllGather>> AllGather::cpu_variants() {
  static constexpr std::array<CpuVariant<AllGather>, 1> kVariants{
      {{.name = kReferenceVariant, .run = [](const AllGatherArgs& args, CpuContext& context) {
          gather(args, communicator_of(context, kName));
        }}}};
  return kVariants;
}

}  // namespace baleen::ops
