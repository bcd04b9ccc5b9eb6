#include "model/expert_store.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/progress.h"

namespace baleen {
namespace {

std::int64_t table_bytes(const ExpertCounts& counts) {
  return Arena::bytes_for<std::int32_t>(counts.num_in_all());
}

/// Experts, a spare block, two copy buffers.
std::int64_t num_device_blocks(const ExpertCounts& counts) {
  return counts.num_on_device() + 1 + 2 * counts.most_on_host_of_a_block();
}

}  // namespace

std::int64_t ExpertStore::device_bytes(const ExpertCounts& counts, std::int64_t block_bytes) {
  return num_device_blocks(counts) * block_bytes + 2 * table_bytes(counts);
}

std::int64_t ExpertStore::host_bytes(const ExpertCounts& counts, std::int64_t block_bytes) {
  return counts.num_on_host == 0 ? 0 : (counts.num_on_host + 1) * block_bytes;
}

ExpertStore::ExpertStore(std::span<const BlockWeights> blocks, const ExpertCounts& counts, Memory& device,
                         Memory& host, BackgroundCopies* copies)
    : placement_(counts),
      shape_(blocks[0].moe.routed[0]),
      device_(device),
      copies_(copies),
      on_device_(num_device_blocks(counts) * shape_.bytes(), device),
      on_host_(host_bytes(counts, shape_.bytes()), host),
      table_(table_bytes(counts), device),
      copied_table_(table_bytes(counts), device),
      places_(static_cast<std::size_t>(counts.num_in_all())) {
  const std::int64_t unit = shape_.bytes();
  // Blocks of the host begin a whole number of blocks from those of the device.
  const auto device_begin = reinterpret_cast<std::intptr_t>(on_device_.data());
  auto host_begin = counts.num_on_host == 0 ? device_begin : reinterpret_cast<std::intptr_t>(on_host_.data());
  host_begin += ((device_begin - host_begin) % unit + unit) % unit;
  const std::intptr_t begin = std::min(device_begin, host_begin);
  const std::int64_t farthest = std::max((device_begin - begin) / unit + num_device_blocks(counts),
                                         (host_begin - begin) / unit + counts.num_on_host);
  BALEEN_CHECK(farthest <= std::numeric_limits<std::int32_t>::max());
  base_ = on_device_.data() + (begin - device_begin);
  first_on_device_ = static_cast<std::int32_t>((device_begin - begin) / unit);
  first_on_host_ = static_cast<std::int32_t>((host_begin - begin) / unit);
  spare_ = first_on_device_ + static_cast<std::int32_t>(counts.num_on_device());
  first_in_rooms_ = spare_ + 1;
  fill(blocks);
}

void ExpertStore::fill(std::span<const BlockWeights> blocks) {
  constexpr std::int64_t kMegabyte = 1'000'000;
  const auto& [num_blocks, num_experts, num_on_host] = placement_.counts();
  Progress progress("loading experts", "MB", num_blocks * num_experts * shape_.bytes() / kMegabyte);
  std::int32_t next_on_device = first_on_device_, next_on_host = first_on_host_;
  std::int64_t done = 0;
  for (std::int64_t block = 0; block < num_blocks; ++block) {
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
    write_tables(block);
  }
}

template <class Visit>
void ExpertStore::for_each_on_host(std::int64_t block, Visit visit) const {
  for (std::int64_t expert = 0; expert < placement_.counts().num_experts; ++expert) {
    if (placement_.on_host(block, expert)) visit(expert, place(block, expert));
  }
}

void ExpertStore::write_tables(std::int64_t block) {
  const std::int64_t num_experts = placement_.counts().num_experts, first = block * num_experts;
  const auto places =
      std::span(places_).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(num_experts));
  std::vector<std::int32_t> copied(places.begin(), places.end());
  std::int32_t next = copy_buffer(block);
  for_each_on_host(
      block, [&](std::int64_t expert, std::int32_t) { copied[static_cast<std::size_t>(expert)] = next++; });
  const std::int64_t offset = first * static_cast<std::int64_t>(sizeof(std::int32_t));
  device_.upload(table_.data() + offset, std::as_bytes(places));
  device_.upload(copied_table_.data() + offset, std::as_bytes(std::span(std::as_const(copied))));
}

ExpertPlaces ExpertStore::places_in(const Buffer& table, std::int64_t block) const {
  const ExpertCounts& counts = placement_.counts();
  return {
      .of_expert = reinterpret_cast<const std::int32_t*>(table.data()) + block * counts.num_experts,
      .count = std::max(first_on_device_ + num_device_blocks(counts), first_on_host_ + counts.num_on_host)};
}

ExpertPlaces ExpertStore::copied_places(std::int64_t block) const { return places_in(copied_table_, block); }

void ExpertStore::copy_to_room(std::int64_t block) {
  std::int32_t next = copy_buffer(block);
  for_each_on_host(
      block, [&](std::int64_t, std::int32_t from) { copies_->start(at(next++), at(from), shape_.bytes()); });
  copies_->set_mark(static_cast<int>(block % 2));
}

void ExpertStore::begin_pass(std::int64_t begin, std::int64_t end) {
  pass_end_ = end;
  copies_->wait_for_operations();  // of the step before, which may read the copy buffers
  copy_to_room(begin);
  if (begin + 1 < end) copy_to_room(begin + 1);
}

void ExpertStore::arrive(std::int64_t block) {
  copies_->make_operations_wait_for(static_cast<int>(block % 2));
}

void ExpertStore::leave(std::int64_t block) {
  if (block + 2 >= pass_end_) return;
  copies_->wait_for_operations();
  copy_to_room(block + 2);
}

void ExpertStore::bind(WeightTree& tree) const {
  for (std::int64_t block = 0; block < placement_.counts().num_blocks; ++block) {
    MoeWeights& moe = tree.blocks[static_cast<std::size_t>(block)].moe;
    moe.routed.clear();
    // The first places, whichever experts they hold: kernels take the first address and the distance.
    for (std::int64_t i = 0; i < placement_.counts().num_experts; ++i)
      moe.routed.push_back(shape_.at(base_ + i * shape_.bytes()));
    moe.places = places_in(table_, block);
    if (placement_.counts().num_on_host == 0) continue;
    moe.places.copied = places_in(copied_table_, block).of_expert;
    moe.places.blocks = at(0);
    moe.places.block_bytes = shape_.bytes();
  }
}

void ExpertStore::swap(const ExpertSwap& swap) {
  std::int32_t& to_device = place(swap.block, swap.from_host);
  std::int32_t& to_host = place(swap.block, swap.from_device);
  const auto size = static_cast<std::size_t>(shape_.bytes());
  device_.upload(at(spare_), {at(to_device), size});
  device_.download({at(to_device), size}, at(to_host));
  const std::int32_t free_on_host = to_device;
  to_device = spare_;
  spare_ = to_host;
  to_host = free_on_host;
  placement_.apply(swap);
  write_tables(swap.block);
}

}  // namespace baleen
