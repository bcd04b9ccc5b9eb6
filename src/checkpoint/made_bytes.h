/// Bytes of tensors that files have in another form: addresses from the start, memory only while the bytes
/// are used.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace baleen {

/// Any thread.
class MadeBytes {
 public:
  struct Piece {
    std::int64_t size = 0;
    /// Writes all of them. Called by any thread, and again for bytes that were discarded.
    std::function<void(std::span<std::byte> to)> make;
  };

  /// Reserves addresses, no memory. Throws `Error` when the system refuses even those.
  explicit MadeBytes(std::vector<Piece> pieces);
  MadeBytes(const MadeBytes&) = delete;
  MadeBytes& operator=(const MadeBytes&) = delete;
  ~MadeBytes();

  /// Where a piece's bytes are once they are made; begins on 64 bytes.
  [[nodiscard]] std::span<const std::byte> bytes(std::size_t piece) const;
  /// What all pieces take.
  [[nodiscard]] std::int64_t size_bytes() const { return size_bytes_; }

  /// Makes the pieces that any of these bytes belong to, unless they are there: they stay until each
  /// `acquire` has had its `release`. Other addresses are passed over.
  void acquire(std::span<const std::byte> bytes) const;
  /// Gives the memory of pieces without a user back, whole pages of it.
  void release(std::span<const std::byte> bytes) const;

  /// Bytes of which `acquire` has made them until now, for tests and figures.
  [[nodiscard]] std::int64_t made_bytes() const { return made_bytes_; }

 private:
  struct State {
    std::mutex mutex;
    std::int64_t num_users = 0;
  };

  /// The pieces [first, second) that overlap `bytes`.
  [[nodiscard]] std::pair<std::size_t, std::size_t> range_of(std::span<const std::byte> bytes) const;
  [[nodiscard]] std::span<std::byte> writable(std::size_t piece) const;

  std::vector<Piece> pieces_;
  std::vector<std::int64_t> begins_;  ///< offset of each piece, and the end
  std::unique_ptr<State[]> states_;
  std::byte* data_ = nullptr;
  std::int64_t reserved_bytes_ = 0, size_bytes_ = 0;
  mutable std::atomic<std::int64_t> made_bytes_ = 0;
};

/// Some bytes, made for as long as this lives; of `made` that is null they are there anyway.
class AcquiredBytes {
 public:
  AcquiredBytes(const MadeBytes* made, std::span<const std::byte> bytes) : made_(made), bytes_(bytes) {
    if (made_ != nullptr) made_->acquire(bytes_);
  }
  AcquiredBytes(const AcquiredBytes&) = delete;
  AcquiredBytes& operator=(const AcquiredBytes&) = delete;
  ~AcquiredBytes() {
    if (made_ != nullptr) made_->release(bytes_);
  }

 private:
  const MadeBytes* made_;
  std::span<const std::byte> bytes_;
};

}  // namespace baleen
