#include "moe/residence/expert_reader.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

#include "base/error.h"

namespace baleen {
namespace {

/// Between looks at a request that has not come: short beside the milliseconds that a read takes.
constexpr std::chrono::microseconds kPause{50};
/// A thread reads so much at a time: several are under way, as disks want it.
constexpr std::size_t kReadBytes = std::size_t{512} << 10;
constexpr int kReadingThreads = 8;

std::uint64_t load(std::uint64_t& word) { return std::atomic_ref(word).load(std::memory_order_acquire); }

}  // namespace

ExpertReader::ExpertReader(std::span<const BlockWeights> blocks, std::span<const ExpertBlock> shapes,
                           std::int64_t unit, Memory& pinned, Memory& device,
                           std::shared_ptr<const MadeBytes> made)
    : shapes_(shapes.begin(), shapes.end()),
      unit_(unit),
      made_(std::move(made)),
      request_(std::int64_t{sizeof(ExpertReadRequest)}, pinned),
      stages_(kStages * unit, pinned),
      prompt_stages_(kPromptStages * unit, pinned),
      state_(std::int64_t{sizeof(ExpertReadState)}, device),
      pool_(std::min(kReadingThreads, default_num_threads())) {
  for (const BlockWeights& block : blocks.first(shapes.size())) experts_.push_back(block.moe.routed);
  // The thread's own token: `thread_` may not yet be the thread that runs.
  thread_ = std::jthread([this](const std::stop_token& stop) { serve(stop); });
}

ExpertReader::~ExpertReader() {
  thread_.request_stop();
  thread_.join();
}

ExpertReads ExpertReader::reads(std::int64_t block) const {
  return {.request = &request(),
          .state = reinterpret_cast<ExpertReadState*>(state_.data()),
          .staged = stages_.data(),
          .num_staged = static_cast<std::int32_t>(kStages),
          .block = static_cast<std::int32_t>(block)};
}

void ExpertReader::read(std::int64_t block, std::int64_t expert, std::byte* to) {
  struct Part {
    std::byte* to;
    std::span<const std::byte> from;
  };
  std::vector<Part> parts;
  for (const ExpertBlock::Piece& piece : pieces(block, expert)) {
    for (std::size_t at = 0; at < piece.bytes.size(); at += kReadBytes)
      parts.push_back(
          {to + piece.offset + at, piece.bytes.subspan(at, std::min(kReadBytes, piece.bytes.size() - at))});
  }
  const std::scoped_lock lock(reading_);
  if (made_ != nullptr) {
    const auto all = pieces(block, expert);
    pool_.parallel_for(std::ssize(all),
                       [&](std::int64_t i, int) { made_->acquire(all[static_cast<std::size_t>(i)].bytes); });
  }
  pool_.parallel_for(std::ssize(parts), [&](std::int64_t i, int) {
    const Part& part = parts[static_cast<std::size_t>(i)];
    std::memcpy(part.to, part.from.data(), part.from.size());
  });
  if (made_ == nullptr) return;
  for (const ExpertBlock::Piece& piece : pieces(block, expert)) made_->release(piece.bytes);
}

void ExpertReader::check() const {
  if (load(request().given_up) == 0) return;
  throw LostDevice(
      "a step waited too long for an expert on disk; is the disk with the checkpoint still there? Nothing "
      "computed since is valid, start again");
}

void ExpertReader::serve(const std::stop_token& stop) {
  for (std::uint64_t answered = 0; !stop.stop_requested();) {
    const std::uint64_t posted = load(request().posted);
    if (posted == answered) {
      std::this_thread::sleep_for(kPause);
      continue;
    }
    answer(posted, stop);
    answered = posted;
  }
}

void ExpertReader::answer(std::uint64_t number, const std::stop_token& stop) {
  ExpertReadRequest& asked = request();
  for (std::int64_t i = 0; i < asked.count; ++i) {
    // The place is free once the expert that had it has been copied.
    const auto word = [&](std::int64_t count) {
      return number << kRequestShift | static_cast<std::uint64_t>(count);
    };
    while (i >= kStages && load(asked.taken) < word(i - kStages + 1)) {
      if (stop.stop_requested()) return;
      std::this_thread::sleep_for(kPause);
    }
    read(asked.block, asked.experts[i], stages_.data() + i % kStages * unit_);
    std::atomic_ref(asked.answered).store(word(i + 1), std::memory_order_release);
  }
}

}  // namespace baleen
