#include "ops/collectives/all_to_all.h"

#include <array>
#include <cstring>

#include "base/check.h"

namespace baleen {
namespace {

/// Columns of member `to`, dense.
std::vector<std::byte> cut_columns(const AllToAllArgs& args, std::int64_t to) {
  const auto bytes = static_cast<std::size_t>(args.y.extent(1) * size_of(args.x.element_type()));
  const std::int64_t row_bytes = args.x.extent(1) * size_of(args.x.element_type());
  std::vector<std::byte> part(static_cast<std::size_t>(args.x.extent(0)) * bytes);
  for (std::int64_t row = 0; row < args.x.extent(0); ++row) {
    std::memcpy(part.data() + static_cast<std::size_t>(row) * bytes,
                args.x.address() + row * row_bytes + to * static_cast<std::int64_t>(bytes), bytes);
  }
  return part;
}

/// Where member `from`'s rows come to.
std::span<std::byte> place_of(const AllToAllArgs& args, std::int64_t from) {
  const std::int64_t bytes = args.x.extent(0) * args.y.extent(1) * size_of(args.y.element_type());
  return {args.y.address() + from * bytes, static_cast<std::size_t>(bytes)};
}

void exchange_columns(const AllToAllArgs& args, Communicator& communicator) {
  std::vector<std::vector<std::byte>> parts;
  std::vector<std::span<const std::byte>> send;
  std::vector<std::span<std::byte>> receive;
  for (std::int64_t i = 0; i < args.group->size(); ++i) {
    parts.push_back(cut_columns(args, i));
    send.emplace_back(parts.back());
    receive.push_back(place_of(args, i));
  }
  communicator.exchange(*args.group, send, receive);
}

}  // namespace

void all_to_all_ref(std::span<const AllToAllArgs> ranks) {
  for (const AllToAllArgs& to : ranks) {
    BALEEN_CHECK_EQ(to.x.extent(1), to.y.extent(1) * to.group->size());
    for (const AllToAllArgs& from : ranks) {
      const std::vector<std::byte> part = cut_columns(from, to.group->place);
      std::memcpy(place_of(to, from.group->place).data(), part.data(), part.size());
    }
  }
}

}  // namespace baleen

namespace baleen::ops {

std::vector<RankMessage> AllToAll::messages(const AllToAllArgs& args) {
  const auto ranks = static_cast<double>(args.group->size());
  return {{MessageKind::kAllToAll, args.group->size(), bytes_of(args.x) * (ranks - 1) / ranks}};
}

void AllToAll::accesses(const AllToAllArgs& args, Accesses& to) { to.read(args.x).write(args.y); }

std::span<const CpuVariant<AllToAll>> AllToAll::cpu_variants() {
  static constexpr std::array<CpuVariant<AllToAll>, 1> kVariants{
      {{.name = kReferenceVariant, .run = [](const AllToAllArgs& args, CpuContext& context) {
          exchange_columns(args, communicator_of(context, kName));
        }}}};
  return kVariants;
}

}  // namespace baleen::ops
