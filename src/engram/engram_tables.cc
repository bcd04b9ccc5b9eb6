#include "engram/engram_tables.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/map_advice.h"
#include "base/progress.h"
#include "parallel/thread_pool.h"

namespace baleen {
namespace {

constexpr std::int64_t kMegabyte = 1'000'000;

/// Copies of whole tensors: from their files by calls, past the maps, so that no page of theirs becomes part
/// of this process.
class TableLoader {
 public:
  TableLoader(Memory& memory, bool is_host, std::int64_t all_bytes)
      : memory_(memory),
        is_host_(is_host),
        pool_(std::min(kThreads, default_num_threads())),
        progress_("loading Engram tables", "MB", all_bytes / kMegabyte) {
    if (!is_host_) stage_.resize(kPieceBytes * kThreads);
  }

  Buffer load(const View<const std::uint8_t, 2>& rows, const MappedFile* file) {
    Buffer to(rows.size(), memory_);
    const auto* const from = reinterpret_cast<const std::byte*>(rows.data());
    std::optional<MappedFileReader> reader;
    if (file != nullptr) reader.emplace(*file).check();
    constexpr auto kAtATime = static_cast<std::int64_t>(kPieceBytes * kThreads);
    for (std::int64_t begin = 0; begin < rows.size(); begin += kAtATime) {
      const std::int64_t size = std::min(kAtATime, rows.size() - begin);
      std::byte* const read_to = is_host_ ? to.data() + begin : stage_.data();
      const std::span<std::byte> bytes(read_to, static_cast<std::size_t>(size));
      if (reader) {
        read(*reader, from + begin - file->bytes().data(), bytes);
      } else {
        std::memcpy(bytes.data(), from + begin, bytes.size());
      }
      if (!is_host_) memory_.upload(to.data() + begin, bytes);
      progress_.update((done_bytes_ += size) / kMegabyte);
    }
    return to;
  }

 private:
  static constexpr int kThreads = 8;
  static constexpr std::size_t kPieceBytes = std::size_t{4} << 20;

  void read(const MappedFileReader& reader, std::int64_t begin, std::span<std::byte> into) {
    std::mutex mutex;
    std::optional<std::string> why;
    pool_.parallel_for(static_cast<std::int64_t>((into.size() + kPieceBytes - 1) / kPieceBytes),
                       [&](std::int64_t i, int /*thread*/) {
                         const std::size_t at = static_cast<std::size_t>(i) * kPieceBytes;
                         try {
                           reader.read(begin + static_cast<std::int64_t>(at),
                                       into.subspan(at, std::min(kPieceBytes, into.size() - at)));
                         } catch (const Error& error) {
                           const std::scoped_lock lock(mutex);
                           if (!why) why = error.what();
                         }
                       });
    if (why) fail("{}", *why);
  }

  Memory& memory_;
  bool is_host_;
  ThreadPool pool_;
  Progress progress_;
  std::vector<std::byte> stage_;  ///< empty where files are read to where the tables lie
  std::int64_t done_bytes_ = 0;
};

std::int64_t size_of_all(const std::vector<StoredEngramTable>& tables) {
  std::int64_t bytes = 0;
  for (const StoredEngramTable& table : tables) bytes += table.size_bytes();
  return bytes;
}

}  // namespace

EngramTables::EngramTables(std::vector<StoredEngramTable> stored, EngramPlace place, Memory& memory)
    : stored_(std::move(stored)), place_(place), rows_(stored_.size()) {
  if (place_ == EngramPlace::kDisk) {
    for (const StoredEngramTable& table : stored_) {
      if (!table.is_in_files())
        fail("\"{}\" lies in no file of ours, so its rows cannot be read from disk; try host", table.name);
    }
    return;
  }
  if (place_ == EngramPlace::kMapped) {
    for (std::size_t i = 0; i < stored_.size(); ++i) {
      rows_[i] = {stored_[i].codes, stored_[i].scales};
      for (const auto& rows : {rows_[i].codes, rows_[i].scales})
        expect_random_reads(std::as_bytes(std::span(rows.data(), static_cast<std::size_t>(rows.size()))));
    }
    return;
  }
  TableLoader loader(memory, place_ == EngramPlace::kHost, size_of_all(stored_));
  const auto copy = [&](const View<const std::uint8_t, 2>& rows, const MappedFile* file) {
    const Buffer& to = buffers_.emplace_back(loader.load(rows, file));
    return View<const std::uint8_t, 2>(reinterpret_cast<const std::uint8_t*>(to.data()), rows.extents());
  };
  for (std::size_t i = 0; i < stored_.size(); ++i)
    rows_[i] = {copy(stored_[i].codes, stored_[i].codes_file),
                copy(stored_[i].scales, stored_[i].scales_file)};
}

}  // namespace baleen
