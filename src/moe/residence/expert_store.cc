#include "moe/residence/expert_store.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/progress.h"
#include "parallel/thread_pool.h"

namespace baleen {
namespace {

constexpr std::int32_t kOnDisk = -1;  // in a table of places
constexpr int kPromptMark = 2;  // of copies out of the first half of the prompt stages; then the other's

std::int64_t num_device_blocks(const ExpertCounts& counts) {
  constexpr std::int64_t kSpare = 1;
  return counts.num_on_device() + kSpare + counts.num_buffer_places() + counts.num_blocks * counts.num_slots;
}

std::vector<ExpertBlock> shapes_of(std::span<const BlockWeights> blocks) {
  std::vector<ExpertBlock> shapes;
  for (const BlockWeights& block : blocks) shapes.emplace_back(block.moe.routed[0]);
  return shapes;
}

/// Of the experts alone.
std::int64_t lattice_bytes_on_host(const ExpertCounts& counts, std::int64_t block_bytes) {
  return counts.num_on_host == 0 ? 0 : (counts.num_on_host + 1) * block_bytes;
}

/// Of an expert that has gone to disk: a slot that has not all its pieces is empty afterwards. Kernels bring
/// missing ones from the host's memory. `slots`: an `ExpertSlotState` of the device's.
void drop_parts(std::int64_t expert, std::int64_t num_slots, std::int64_t block_bytes, std::byte* slots,
                Memory& device) {
  if (num_slots == 0) return;
  const auto num_pieces = static_cast<std::size_t>(num_fetch_pieces(block_bytes));
  ExpertSlotState state;
  device.download(std::as_writable_bytes(std::span(&state, 1)), slots);
  for (std::size_t slot = 0; slot < static_cast<std::size_t>(num_slots); ++slot) {
    if (state.expert[slot] != expert) continue;
    if (std::ranges::count(std::span(state.pieces[slot]).first(num_pieces), 0) == 0) return;
    state.expert[slot] = -1;
    return device.upload(slots, std::as_bytes(std::span(&state, 1)));
  }
}

}  // namespace

ExpertStore::Tables::Tables(std::int64_t num_experts) {
  const std::int64_t places = Arena::bytes_for<std::int32_t>(num_experts);
  of_expert = 0;
  buffered = places;
  copied = 2 * places;
  state = 3 * places;
  bytes = state + Arena::bytes_for<ExpertSlotState>(1);
}

std::int64_t ExpertStore::device_bytes(const ExpertCounts& counts, std::int64_t block_bytes) {
  return num_device_blocks(counts) * block_bytes + counts.num_blocks * Tables(counts.num_experts).bytes +
         Arena::bytes_for<Shared>(1) + ExpertGuesses::device_bytes(counts, kMaxRowsOfKernelCopies) +
         (counts.num_on_disk > 0 ? Arena::bytes_for<ExpertReadState>(1) : 0);
}

std::int64_t ExpertStore::host_bytes(const ExpertCounts& counts, std::int64_t block_bytes) {
  return lattice_bytes_on_host(counts, block_bytes) +
         (counts.num_on_disk > 0 ? ExpertReader::host_bytes(block_bytes) : 0);
}

ExpertStore::ExpertStore(std::span<const BlockWeights> blocks, const ExpertCounts& counts, Memory& device,
                         Memory& host, BackgroundCopies* copies, std::shared_ptr<const MadeBytes> made)
    : placement_(counts),
      cached_(counts),
      shapes_(shapes_of(blocks.first(static_cast<std::size_t>(counts.num_blocks)))),
      unit_(std::ranges::max(shapes_, {}, &ExpertBlock::bytes).bytes()),
      device_(device),
      host_(host),
      copies_(copies),
      on_device_(num_device_blocks(counts) * unit_, device),
      on_host_(lattice_bytes_on_host(counts, unit_), host),
      tables_(counts.num_blocks * Tables(counts.num_experts).bytes, device),
      shared_(Arena::bytes_for<Shared>(1), device),
      guesses_(counts, kMaxRowsOfKernelCopies, device),
      reader_(counts.num_on_disk > 0
                  ? std::make_unique<ExpertReader>(blocks, shapes_, unit_, host, device, made)
                  : nullptr),
      places_(static_cast<std::size_t>(counts.num_in_all())) {
  BALEEN_CHECK(counts.num_slots <= kMaxSlotsOfBlock && counts.num_experts <= kMaxExpertsOfBlock);
  const std::int64_t unit = unit_;
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
  first_in_buffers_ = spare_ + 1;
  first_slot_ = first_in_buffers_ + static_cast<std::int32_t>(counts.num_buffer_places());
  fill(blocks, made.get());
}

void ExpertStore::fill(std::span<const BlockWeights> blocks, const MadeBytes* made) {
  constexpr std::int64_t kMegabyte = 1'000'000;
  const std::int64_t num_blocks = placement_.counts().num_blocks;
  const std::int64_t num_experts = placement_.counts().num_experts;
  std::int32_t next_on_device = first_on_device_, next_on_host = first_on_host_;
  for (std::int64_t block = 0; block < num_blocks; ++block) {
    for (std::int64_t expert = 0; expert < num_experts; ++expert) {
      const ExpertLevel level = placement_.level(block, expert);
      place(block, expert) = level == ExpertLevel::kDevice ? next_on_device++
                             : level == ExpertLevel::kHost ? next_on_host++
                                                           : kOnDisk;
    }
    write_places(block);
    empty_slots(block);
  }
  Progress progress("loading experts", "MB",
                    (num_blocks * num_experts - placement_.counts().num_on_disk) * unit_ / kMegabyte);
  std::int64_t done = 0;
  ThreadPool pool(default_num_threads());
  for (std::int64_t block = 0; block < num_blocks; ++block) {
    const std::vector<ExpertWeights>& routed = blocks[static_cast<std::size_t>(block)].moe.routed;
    const auto load = [&](std::int64_t expert, auto&& copy) {
      for (const ExpertBlock::Piece& piece : shape(block).pieces(routed[static_cast<std::size_t>(expert)])) {
        const AcquiredBytes acquired(made, piece.bytes);
        if (!piece.bytes.empty()) copy(at(place(block, expert)) + piece.offset, piece.bytes);
      }
    };
    // The host's by all threads: one reads a few gigabytes a second.
    pool.parallel_for(num_experts, [&](std::int64_t expert, int) {
      if (placement_.level(block, expert) != ExpertLevel::kHost) return;
      load(expert,
           [](std::byte* to, std::span<const std::byte> from) { std::memcpy(to, from.data(), from.size()); });
    });
    for (std::int64_t expert = 0; expert < num_experts; ++expert) {
      if (placement_.level(block, expert) == ExpertLevel::kDisk) continue;
      if (placement_.on_device(block, expert)) {
        load(expert, [&](std::byte* to, std::span<const std::byte> from) { device_.upload(to, from); });
      }
      progress.update(++done * unit_ / kMegabyte);
    }
  }
}

template <class Each>
void ExpertStore::for_each_away(std::int64_t block, Each each) const {
  for (std::int64_t expert = 0; expert < placement_.counts().num_experts; ++expert) {
    if (!placement_.on_device(block, expert)) each(expert);
  }
}

void ExpertStore::write_places(std::int64_t block) {
  const std::int64_t num_experts = placement_.counts().num_experts;
  const Tables tables(num_experts);
  std::vector<std::byte> bytes(static_cast<std::size_t>(tables.state));
  const auto write = [&](std::int64_t offset, const auto& values) {
    std::memcpy(bytes.data() + offset, values.data(), values.size() * sizeof(values[0]));
  };
  std::vector<std::int32_t> places;
  for (std::int64_t expert = 0; expert < num_experts; ++expert) {
    const auto cached = cached_.place_of({block, expert});
    places.push_back(cached ? first_in_buffers_ + static_cast<std::int32_t>(*cached) : place(block, expert));
  }
  write(tables.of_expert, places);
  std::int32_t next = copy_buffer(block);
  for_each_away(block, [&](std::int64_t expert) {
    if (!cached_.place_of({block, expert})) places[static_cast<std::size_t>(expert)] = next;
    ++next;
  });
  write(tables.buffered, places);
  write(tables.copied, places);
  device_.upload(const_cast<std::byte*>(tables_of(block)), bytes);
}

void ExpertStore::empty_slots(std::int64_t block) {
  ExpertSlotState state{};
  std::ranges::fill(state.expert, -1);
  device_.upload(const_cast<std::byte*>(tables_of(block)) + Tables(placement_.counts().num_experts).state,
                 std::as_bytes(std::span(&state, 1)));
}

void ExpertStore::cache(std::span<const CachedExperts::Change> changes) {
  std::set<std::int64_t> blocks;
  for (const auto& [place_in_buffers, next] : changes) {
    BALEEN_CHECK(placement_.level(next.block, next.expert) == ExpertLevel::kHost);
    if (const auto replaced = cached_.at(place_in_buffers)) blocks.insert(replaced->block);
    drop_cached(next, blocks);
    blocks.insert(next.block);
    cached_.put(place_in_buffers, next);
    device_.upload(at(first_in_buffers_ + static_cast<std::int32_t>(place_in_buffers)),
                   {at(place(next.block, next.expert)), static_cast<std::size_t>(unit_)});
  }
  for (const std::int64_t block : blocks) write_places(block);
}

void ExpertStore::make_room(std::int64_t num_rows) {
  drop_cached(placement_.counts().num_buffer_places_for(num_rows));
}

void ExpertStore::drop_cached(std::int64_t count) {
  std::set<std::int64_t> blocks;
  for (std::int64_t place = 0; place < count; ++place) {
    if (const auto expert = cached_.at(place)) drop_cached(*expert, blocks);
  }
  for (const std::int64_t block : blocks) write_places(block);
}

void ExpertStore::drop_cached(const BlockExpert& expert, std::set<std::int64_t>& blocks) {
  const auto place = cached_.place_of(expert);
  if (!place) return;
  cached_.drop(*place);
  blocks.insert(expert.block);
}

ExpertPlaces ExpertStore::places_in(const std::byte* table) const {
  const ExpertCounts& counts = placement_.counts();
  return {
      .of_expert = reinterpret_cast<const std::int32_t*>(table),
      .count = std::max(first_on_device_ + num_device_blocks(counts), first_on_host_ + counts.num_on_host)};
}

ExpertPlaces ExpertStore::copied_places(std::int64_t block) const {
  return places_in(tables_of(block) + Tables(placement_.counts().num_experts).buffered);
}

ExpertSlots ExpertStore::slots_of(std::int64_t block) const {
  const ExpertCounts& counts = placement_.counts();
  const Tables tables(counts.num_experts);
  std::byte* const own = tables_.data() + block * tables.bytes;
  return {.count = static_cast<std::int32_t>(counts.num_slots),
          .first = first_slot_ + static_cast<std::int32_t>(block * counts.num_slots),
          .buffer = first_in_buffers_,
          .buffered = reinterpret_cast<const std::int32_t*>(own + tables.buffered),
          .copied = reinterpret_cast<std::int32_t*>(own + tables.copied),
          .state = reinterpret_cast<ExpertSlotState*>(own + tables.state),
          .counts = &shared().counts,
          .routed = &shared().routed,
          .reads = reader_ ? reader_->reads(block) : ExpertReads(),
          .host = computes_ ? computer_->host(block) : ComputedExperts(),
          .least_piece_ns = least_piece_ns_};
}

std::int32_t* ExpertStore::routed() const { return &shared().routed; }

ExpertFetchCounts ExpertStore::counts() const {
  ExpertFetchCounts counts;
  device_.download(std::as_writable_bytes(std::span(&counts, 1)),
                   reinterpret_cast<const std::byte*>(&shared().counts));
  return counts;
}

ExpertWeights ExpertStore::weights_at(std::int64_t block, std::int64_t expert, std::int32_t place) const {
  return place == kOnDisk ? reader_->weights(block, expert) : shape(block).at(at(place));
}

std::optional<ExpertWeights> ExpertStore::expert_on_host(std::int32_t place) const {
  const std::int64_t number = std::int64_t{place} - first_on_host_;
  if (number < 0 || number >= placement_.counts().num_on_host) return std::nullopt;
  return shape(0).at(at(place));
}

double ExpertStore::measured_piece_ns() {
  constexpr std::int64_t kMaxCopied = 4;
  const std::int64_t num_copied =
      std::min({kMaxCopied, placement_.counts().num_on_host, placement_.counts().most_away_of_a_block()});
  if (copies_ == nullptr || num_copied == 0) return 1;
  const auto seconds = [&] {
    const auto begin = std::chrono::steady_clock::now();
    for (std::int64_t i = 0; i < num_copied; ++i) {
      copies_->start(at(first_in_buffers_ + static_cast<std::int32_t>(i)),
                     at(first_on_host_ + static_cast<std::int32_t>(i)), unit_);
    }
    copies_->set_mark(0);
    copies_->wait_for(0);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  static_cast<void>(seconds());  // the first copies of a process take longer
  return 1e9 * seconds() / static_cast<double>(num_copied * num_fetch_pieces(unit_));
}

HostExpertTimes ExpertStore::measure_host(float swiglu_limit, int num_threads) {
  constexpr std::size_t kMaxMeasured = 16;  // of Flash 214 MB, more than caches hold
  const auto each_piece = [](const ExpertBlock& shape, const ExpertWeights& weights, auto&& use) {
    for (const ExpertBlock::Piece& piece : shape.pieces(weights)) use(piece.bytes);
  };
  ExpertComputer::Source source{
      .find = [this](std::int64_t block, std::int64_t expert,
                     std::int32_t place) { return weights_at(block, expert, place); },
      .on_host = [this](std::int32_t place) { return expert_on_host(place); }};
  if (reader_ && reader_->made() != nullptr) {
    const MadeBytes* const made = reader_->made();
    source.acquire = [=, this](const ExpertWeights& weights) {
      each_piece(shape(0), weights, [&](std::span<const std::byte> bytes) { made->acquire(bytes); });
    };
    source.release = [=, this](const ExpertWeights& weights) {
      each_piece(shape(0), weights, [&](std::span<const std::byte> bytes) { made->release(bytes); });
    };
  }
  std::vector<ExpertWeights> experts;
  std::vector<bool> acquired;
  const ExpertCounts& counts = placement_.counts();
  for (const ExpertLevel level : {ExpertLevel::kHost, ExpertLevel::kDisk}) {
    for (std::int64_t block = 0; block < counts.num_blocks && experts.empty(); ++block) {
      for (std::int64_t expert = 0; expert < counts.num_experts; ++expert) {
        if (placement_.level(block, expert) != level || experts.size() == kMaxMeasured) continue;
        experts.push_back(weights_at(block, expert, place(block, expert)));
        acquired.push_back(level == ExpertLevel::kDisk);
        if (acquired.back() && source.acquire) source.acquire(experts.back());
      }
    }
  }
  BALEEN_CHECK(!experts.empty());
  computer_ = std::make_unique<ExpertComputer>(source, experts.front(), swiglu_limit, num_threads, host_,
                                               &shared().host);
  HostExpertTimes times = computer_->measure(experts);
  for (std::size_t i = 0; i < experts.size(); ++i) {
    if (acquired[i] && source.release) source.release(experts[i]);
  }
  times.fetch_piece =
      std::max(static_cast<std::uint32_t>(std::max(measured_piece_ns(), 1.0)), least_piece_ns_);
  return times;
}

void ExpertStore::compute_on_host(const HostExpertTimes& times) {
  BALEEN_CHECK(computer_ != nullptr);
  computer_->start(times);
  computes_ = true;
}

void ExpertStore::impose_link(double bytes_per_second) {
  BALEEN_CHECK(bytes_per_second > 0);
  least_piece_ns_ =
      static_cast<std::uint32_t>(1e9 * static_cast<double>(kFetchPieceBytes) / bytes_per_second);
}

void ExpertStore::copy_to_buffer(std::int64_t block) {
  std::int32_t next = copy_buffer(block);
  for_each_away(block, [&](std::int64_t expert) {
    std::byte* const to = at(next++);
    if (placement_.level(block, expert) == ExpertLevel::kDisk) return copy_from_disk(block, expert, to);
    copies_->start(to, at(place(block, expert)), unit_);
  });
  copies_->set_mark(static_cast<int>(block % 2));
}

void ExpertStore::copy_from_disk(std::int64_t block, std::int64_t expert, std::byte* to) {
  constexpr std::int64_t kHalf = ExpertReader::kPromptStages / 2;
  const std::int64_t stage = num_staged_++ % ExpertReader::kPromptStages;
  const int mark = kPromptMark + static_cast<int>(stage / kHalf);
  if (stage % kHalf == 0) copies_->wait_for(mark);  // what this half held has been copied
  reader_->read(block, expert, reader_->prompt_stage(stage));
  copies_->start(to, reader_->prompt_stage(stage), unit_);
  if (stage % kHalf == kHalf - 1) copies_->set_mark(mark);
}

void ExpertStore::begin_pass(std::int64_t begin, std::int64_t end) {
  pass_end_ = end;
  drop_cached(cached_.num_places());
  copies_->wait_for_operations();  // of the step before, which may read the copy buffers
  copy_to_buffer(begin);
  if (begin + 1 < end) copy_to_buffer(begin + 1);
}

void ExpertStore::arrive(std::int64_t block) {
  copies_->make_operations_wait_for(static_cast<int>(block % 2));
}

void ExpertStore::leave(std::int64_t block) {
  if (block + 2 >= pass_end_) return;
  copies_->wait_for_operations();
  copy_to_buffer(block + 2);
}

void ExpertStore::bind(WeightTree& tree) const {
  for (std::int64_t block = 0; block < placement_.counts().num_blocks; ++block) {
    MoeWeights& moe = tree.blocks[static_cast<std::size_t>(block)].moe;
    moe.routed.clear();
    // The first places, whichever experts they hold: kernels take the first address and the distance.
    for (std::int64_t i = 0; i < placement_.counts().num_experts; ++i)
      moe.routed.push_back(shape(block).at(base_ + i * unit_));
    moe.places = places_in(tables_of(block));
    if (placement_.counts().num_away() == 0) continue;
    moe.places.slots = slots_of(block);
    moe.places.copied = moe.places.slots.copied;
    moe.places.blocks = at(0);
    moe.places.block_bytes = unit_;
  }
}

void ExpertStore::swap(const ExpertSwap& swap) {
  std::int32_t& promoted = place(swap.block, swap.promoted);
  std::int32_t& demoted = place(swap.block, swap.demoted);
  const auto size = static_cast<std::size_t>(unit_);
  const bool from_disk = promoted == kOnDisk;
  std::set<std::int64_t> blocks;  // the swap's alone
  for (const std::int64_t expert : {swap.promoted, swap.demoted}) drop_cached({swap.block, expert}, blocks);
  const std::int32_t freed = demoted;
  if (placement_.on_device(swap.block, swap.demoted)) {
    if (from_disk) {
      for (const ExpertBlock::Piece& piece : reader_->pieces(swap.block, swap.promoted)) {
        if (!piece.bytes.empty()) device_.upload(at(spare_) + piece.offset, piece.bytes);
      }
    } else {
      device_.upload(at(spare_), {at(promoted), size});
      device_.download({at(promoted), size}, at(demoted));
    }
    demoted = promoted;
    promoted = spare_;
    spare_ = freed;
  } else {
    static_cast<void>(counts());  // waits: what is queued may read the block
    reader_->read(swap.block, swap.promoted, at(freed));
    demoted = kOnDisk;
    promoted = freed;
  }
  placement_.apply(swap);
  write_places(swap.block);
  if (from_disk) {
    const Tables tables(placement_.counts().num_experts);
    drop_parts(swap.demoted, placement_.counts().num_slots, unit_,
               tables_.data() + swap.block * tables.bytes + tables.state, device_);
  }
}

}  // namespace baleen
