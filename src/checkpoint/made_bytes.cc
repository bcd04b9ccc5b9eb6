#include "checkpoint/made_bytes.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/size_text.h"

namespace baleen {
namespace {

constexpr std::int64_t kPageBytes = 4096, kLineBytes = 64;

std::int64_t rounded_up(std::int64_t value, std::int64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

MadeBytes::MadeBytes(std::vector<Piece> pieces)
    : pieces_(std::move(pieces)), states_(std::make_unique<State[]>(pieces_.size())) {
  std::int64_t end = 0;
  for (const Piece& piece : pieces_) {
    // Pages of a large piece are its own, so that they can be given back.
    end = rounded_up(end, piece.size < kPageBytes ? kLineBytes : kPageBytes);
    begins_.push_back(end);
    end += piece.size;
    size_bytes_ += piece.size;
  }
  begins_.push_back(end);
  reserved_bytes_ = std::max(kPageBytes, rounded_up(end, kPageBytes));
  void* const reserved = ::mmap(nullptr, static_cast<std::size_t>(reserved_bytes_), PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) {
    fail(
        "addresses for {} of converted weights cannot be reserved: {}; is virtual memory limited (ulimit "
        "-v)?",
        size_text(reserved_bytes_), std::strerror(errno));
  }
  data_ = static_cast<std::byte*>(reserved);
}

MadeBytes::~MadeBytes() { ::munmap(data_, static_cast<std::size_t>(reserved_bytes_)); }

std::span<std::byte> MadeBytes::writable(std::size_t piece) const {
  return {data_ + begins_[piece], static_cast<std::size_t>(pieces_[piece].size)};
}

std::span<const std::byte> MadeBytes::bytes(std::size_t piece) const { return writable(piece); }

std::pair<std::size_t, std::size_t> MadeBytes::range_of(std::span<const std::byte> bytes) const {
  const auto place = reinterpret_cast<std::intptr_t>(bytes.data()) - reinterpret_cast<std::intptr_t>(data_);
  if (bytes.empty() || place < 0 || place >= reserved_bytes_) return {0, 0};
  const auto ends = std::span(begins_).subspan(1);
  const auto begin = std::ranges::upper_bound(begins_, place) - begins_.begin() - 1;
  const auto end = std::ranges::lower_bound(ends, place + std::ssize(bytes)) - ends.begin() + 1;
  return {static_cast<std::size_t>(begin), std::min(static_cast<std::size_t>(end), pieces_.size())};
}

void MadeBytes::acquire(std::span<const std::byte> bytes) const {
  const auto [begin, end] = range_of(bytes);
  for (std::size_t piece = begin; piece < end; ++piece) {
    State& state = states_[piece];
    const std::lock_guard lock(state.mutex);
    if (state.num_users++ > 0 || pieces_[piece].size == 0) continue;
    pieces_[piece].make(writable(piece));
    made_bytes_ += pieces_[piece].size;
  }
}

void MadeBytes::release(std::span<const std::byte> bytes) const {
  const auto [begin, end] = range_of(bytes);
  for (std::size_t piece = begin; piece < end; ++piece) {
    State& state = states_[piece];
    const std::lock_guard lock(state.mutex);
    if (--state.num_users > 0) continue;
    const std::int64_t whole_pages = pieces_[piece].size / kPageBytes * kPageBytes;
    if (whole_pages > 0)
      ::madvise(data_ + begins_[piece], static_cast<std::size_t>(whole_pages), MADV_DONTNEED);
  }
}

}  // namespace baleen
