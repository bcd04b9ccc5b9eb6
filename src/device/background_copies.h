/// Copies beside the operations of a device, on a queue of their own, in the order of the calls.
#pragma once

#include <cstddef>
#include <cstdint>

namespace baleen {

/// Memory that is copied from or to must stay valid until operations have waited for it.
class BackgroundCopies {
 public:
  virtual ~BackgroundCopies() = default;

  /// Copies that are started from now on wait for the operations that were queued before.
  virtual void wait_for_operations() = 0;
  /// From memory of the host to the device's; where that is not pinned, returns only when it was read.
  virtual void start(std::byte* to, const std::byte* from, std::int64_t size_bytes) = 0;
  /// Behind the copies that were started before. A later mark of the same number takes its place.
  virtual void set_mark(int mark) = 0;
  /// Operations that are queued from now on wait for what is before the mark, which has been set.
  virtual void make_operations_wait_for(int mark) = 0;

  /// The caller waits for what is before the mark; at once where it has never been set.
  virtual void wait_for(int mark) = 0;

  static constexpr int kNumMarks = 4;
};

}  // namespace baleen
