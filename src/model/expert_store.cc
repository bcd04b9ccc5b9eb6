#include "model/expert_store.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "base/progress.h"

namespace baleen {
namespace {

std::int64_t table_bytes(const ExpertPlacement& placement) {
  return Arena::bytes_for<std::int32_t>(placement.num_blocks() * placement.num_experts());
}

}  // namespace

std::int64_t ExpertStore::device_bytes(const ExpertPlacement& placement, std::int64_t block_bytes) {
  return (placement.num_on_device() + 1) * block_bytes + table_bytes(placement);
}

std::int64_t ExpertStore::host_bytes(const ExpertPlacement& placement, std::int64_t block_bytes) {
  return placement.num_on_host() == 0 ? 0 : (placement.num_on_host() + 1) * block_bytes;
}

ExpertStore::ExpertStore(std::span<const BlockWeights> blocks, const ExpertPlacement& placement,
                         Memory& device, Memory& host)
    : placement_(placement),
      shape_(blocks[0].moe.routed[0]),
      device_(device),
      on_device_((placement.num_on_device() + 1) * shape_.bytes(), device),
      on_host_(host_bytes(placement, shape_.bytes()), host),
      table_(table_bytes(placement), device),
      places_(static_cast<std::size_t>(placement.num_blocks() * placement.num_experts())) {
  const std::int64_t unit = shape_.bytes();
  // Blocks of the host begin a whole number of blocks from those of the device.
  const auto device_begin = reinterpret_cast<std::intptr_t>(on_device_.data());
  auto host_begin =
      placement.num_on_host() == 0 ? device_begin : reinterpret_cast<std::intptr_t>(on_host_.data());
  host_begin += ((device_begin - host_begin) % unit + unit) % unit;
  const std::intptr_t begin = std::min(device_begin, host_begin);
  const std::int64_t farthest = std::max((device_begin - begin) / unit + placement.num_on_device() + 1,
                                         (host_begin - begin) / unit + placement.num_on_host());
  BALEEN_CHECK(farthest <= std::numeric_limits<std::int32_t>::max());
  base_ = reinterpret_cast<const std::byte*>(begin);
  first_on_device_ = static_cast<std::int32_t>((device_begin - begin) / unit);
  first_on_host_ = static_cast<std::int32_t>((host_begin - begin) / unit);
  fill(blocks);
}

void ExpertStore::fill(std::span<const BlockWeights> blocks) {
  constexpr std::int64_t kMegabyte = 1'000'000;
  const std::int64_t num_experts = placement_.num_experts();
  Progress progress("loading experts", "MB",
                    placement_.num_blocks() * num_experts * shape_.bytes() / kMegabyte);
  std::int32_t next_on_device = first_on_device_, next_on_host = first_on_host_;
  std::int64_t done = 0;
  for (std::int64_t block = 0; block < placement_.num_blocks(); ++block) {
    const std::vector<ExpertWeights>& routed = blocks[static_cast<std::size_t>(block)].moe.routed;
    for (std::int64_t expert = 0; expert < num_experts; ++expert) {
      const bool on_host = placement_.on_host(block, expert);
      place(block, expert) = on_host ? next_on_host++ : next_on_device++;
      auto* to = const_cast<std::byte*>(address(block, expert));
      for (const ExpertBlock::Piece& piece : shape_.pieces(routed[static_cast<std::size_t>(expert)])) {
        if (piece.bytes.empty()) continue;
        if (on_host) {
          std::memcpy(to + piece.offset, piece.bytes.data(), piece.bytes.size());
        } else {
          device_.upload(to + piece.offset, piece.bytes);
        }
      }
      progress.update(++done * shape_.bytes() / kMegabyte);
    }
    write_table(block);
  }
  spare_ = next_on_device;
}

void ExpertStore::write_table(std::int64_t block) {
  const std::int64_t first = block * placement_.num_experts();
  const auto row = std::span(places_).subspan(static_cast<std::size_t>(first),
                                              static_cast<std::size_t>(placement_.num_experts()));
  device_.upload(table_.data() + first * static_cast<std::int64_t>(sizeof(std::int32_t)), std::as_bytes(row));
}

void ExpertStore::bind(WeightTree& tree) const {
  const std::int64_t num_experts = placement_.num_experts();
  const std::int64_t most_device = first_on_device_ + placement_.num_on_device() + 1;
  const std::int64_t most_host = first_on_host_ + placement_.num_on_host();
  for (std::int64_t block = 0; block < placement_.num_blocks(); ++block) {
    MoeWeights& moe = tree.blocks[static_cast<std::size_t>(block)].moe;
    moe.routed.clear();
    for (std::int64_t i = 0; i < num_experts;
         ++i)  // the first places, whosever they are: their distances count
      moe.routed.push_back(shape_.at(base_ + i * shape_.bytes()));
    moe.places = {.of_expert = reinterpret_cast<const std::int32_t*>(table_.data()) + block * num_experts,
                  .count = std::max(most_device, most_host)};
  }
}

void ExpertStore::swap(const ExpertSwap& swap) {
  std::int32_t& to_device = place(swap.block, swap.from_host);
  std::int32_t& to_host = place(swap.block, swap.from_device);
  const auto at = [&](std::int32_t place) {
    return const_cast<std::byte*>(base_) + std::int64_t{place} * shape_.bytes();
  };
  const auto size = static_cast<std::size_t>(shape_.bytes());
  device_.upload(at(spare_), {at(to_device), size});
  device_.download({at(to_device), size}, at(to_host));
  const std::int32_t free_on_host = to_device;
  to_device = spare_;
  spare_ = to_host;
  to_host = free_on_host;
  placement_.apply(swap);
  write_table(swap.block);
}

}  // namespace baleen
