#include "engram/engram_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/error.h"
#include "ops/engram/engram_lookup.h"

namespace baleen {
namespace {

/// Rows that a thread takes at a time, where there are many.
constexpr std::size_t kRowsAtATime = 8;

void read_row(const MappedFileReader& reader, const MappedFile& file, const View<const std::uint8_t, 2>& rows,
              std::int64_t row, std::byte* to) {
  const auto* const from = reinterpret_cast<const std::byte*>(rows.data()) + row * rows.stride(0);
  reader.read(from - file.bytes().data(), {to, static_cast<std::size_t>(rows.extent(1))});
}

}  // namespace

EngramRecord::EngramRecord(std::int64_t width) : scales_at(width) {
  constexpr std::int64_t kAlignment = 16;  // of what kernels load
  const std::int64_t used = width + (width + kEngramScaleColumns - 1) / kEngramScaleColumns;
  size_bytes = (used + kAlignment - 1) / kAlignment * kAlignment;
}

EngramReader::EngramReader(std::span<const StoredEngramTable> tables)
    : tables_(tables), record_(tables.front().width()) {
  for (const StoredEngramTable& table : tables) {
    BALEEN_CHECK(table.is_in_files() && table.width() == tables.front().width());
    const Files& files = files_.emplace_back(table);
    files.codes.check();
    files.scales.check();
  }
  threads_.reserve(kReads);
  for (int i = 0; i < kReads; ++i) threads_.emplace_back([this] { work(); });
}

EngramReader::~EngramReader() {
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
  }
  started_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void EngramReader::start(std::span<const EngramRowId> rows, std::byte* to) {
  {
    const std::scoped_lock lock(mutex_);
    for (const EngramRowId& row : rows) {
      reads_.push_back({row, to});
      to += record_.size_bytes;
    }
  }
  started_.notify_all();
}

std::optional<std::string> EngramReader::wait() {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return num_done_ == reads_.size(); });
  reads_.clear();
  num_taken_ = num_done_ = 0;
  if (!failed_) return std::nullopt;
  return std::exchange(failed_, std::nullopt)->why;
}

void EngramReader::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    started_.wait(lock, [this] { return ends_ || num_taken_ < reads_.size(); });
    if (ends_) return;
    const std::size_t left = reads_.size() - num_taken_;
    const std::size_t count = std::clamp<std::size_t>(left / kReads, 1, kRowsAtATime);
    const std::size_t first = std::exchange(num_taken_, num_taken_ + count);
    std::array<Read, kRowsAtATime> reads;
    std::copy_n(reads_.begin() + static_cast<std::ptrdiff_t>(first), count, reads.begin());
    lock.unlock();
    std::optional<Failed> failed;
    for (std::size_t i = 0; i < count && !failed; ++i) {
      std::string why = read(reads[i].row, reads[i].to);
      if (!why.empty()) failed = {first + i, std::move(why)};
    }
    lock.lock();
    if (failed && (!failed_ || failed->place < failed_->place)) failed_ = std::move(failed);
    num_done_ += count;
    if (num_done_ == reads_.size()) done_.notify_all();
  }
}

std::string EngramReader::read(const EngramRowId& id, std::byte* to) const {
  const auto number = static_cast<std::size_t>(id.table);
  const StoredEngramTable& table = tables_[number];
  try {
    read_row(files_[number].codes, *table.codes_file, table.codes, id.row, to);
    read_row(files_[number].scales, *table.scales_file, table.scales, id.row, to + record_.scales_at);
  } catch (const Error& error) {
    return fmt::format("row {} of \"{}\": {}", id.row, table.name, error.what());
  }
  return "";
}

}  // namespace baleen
