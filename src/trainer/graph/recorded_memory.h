/// Addresses for the arrays of a pass that is written down, and how many bytes they hold.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tensor/unbacked_memory.h"

namespace baleen::graph {

/// While there is one, the thread that made it takes `Values` from it (activations.h): none of them may be
/// read or written.
class RecordedMemory {
 public:
  RecordedMemory() : before_(current()) { current() = this; }
  RecordedMemory(const RecordedMemory&) = delete;
  RecordedMemory& operator=(const RecordedMemory&) = delete;
  ~RecordedMemory() { current() = before_; }

  /// Of the calling thread; null: arrays are arrays.
  [[nodiscard]] static RecordedMemory*& current() {
    static thread_local RecordedMemory* memory = nullptr;
    return memory;
  }

  [[nodiscard]] void* take(std::int64_t bytes) {
    held_bytes_ += bytes;
    peak_bytes_ = std::max(peak_bytes_, held_bytes_);
    return addresses_.allocate(bytes);
  }
  void give_back(std::int64_t bytes) { held_bytes_ -= bytes; }
  /// So many bytes more were held for a moment.
  void touch(std::int64_t bytes) { peak_bytes_ = std::max(peak_bytes_, held_bytes_ + bytes); }

  [[nodiscard]] std::int64_t held_bytes() const { return held_bytes_; }
  [[nodiscard]] std::int64_t peak_bytes() const { return peak_bytes_; }

 private:
  RecordedMemory* before_;
  UnbackedMemory addresses_;
  std::int64_t held_bytes_ = 0, peak_bytes_ = 0;
};

}  // namespace baleen::graph
