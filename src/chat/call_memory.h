/// What the model wrote for the tool calls that clients send back.
#pragma once

#include <cstddef>
#include <list>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "chat/message.h"

namespace baleen {

struct CallMemoryLimits {
  std::size_t max_entries = 65536;
  /// Keys and raw texts may take so many bytes, what holds them included.
  std::size_t max_bytes = std::size_t{64} << 20;
};

/// The names in order, the arguments as JSON with sorted keys, Python's numbers and one spacing: equal for
/// calls that mean the same. 1 and 1.0 differ, "\u00e9" and "é" do not, nor do 1e2 and 100.0. Nothing when
/// arguments are no JSON object.
[[nodiscard]] std::optional<std::string> canonical_calls(std::span<const ToolCall> calls);

/// From a reply's calls, whatever a client made of their JSON, to the bytes of their block. A history
/// rendered with those bytes repeats the model's own tokens, so its prefix stays in the cache. Forgets the
/// least recently used. Thread-safe; the work on JSON is done outside the lock, which is held for a few hash
/// lookups.
class CallMemory {
 public:
  explicit CallMemory(CallMemoryLimits limits = {}) : limits_(limits) {}

  /// `calls`: as given to the client, with their ids; `raw`: `ReplyReader::raw_calls`. Remembers nothing when
  /// either is empty, the calls have no canonical form, or the entry alone exceeds the limit.
  void remember(std::span<const ToolCall> calls, std::string_view raw);

  /// The raw text of equal calls: those with the same ids, else the latest ones, unless the ids contradict
  /// (both are known and differ).
  [[nodiscard]] std::optional<std::string> recall(std::span<const ToolCall> calls);

  [[nodiscard]] std::size_t num_entries() const;
  [[nodiscard]] std::size_t num_bytes() const;

 private:
  struct Entry {
    std::string form;  ///< canonical
    std::string key;   ///< the form with the ids
    std::vector<std::string> ids;
    std::string raw;
    [[nodiscard]] std::size_t num_bytes() const;
  };
  using Place = std::list<Entry>::iterator;

  void forget(Place place);

  const CallMemoryLimits limits_;
  mutable std::mutex mutex_;
  // Every entry is in `entries_` and `by_key_` once; the latest of each form is in `by_form_`. The maps' keys
  // point into the entries.
  std::list<Entry> entries_;  ///< the most recently used first
  std::unordered_map<std::string_view, Place> by_key_;
  std::unordered_map<std::string_view, Place> by_form_;
  std::size_t num_bytes_ = 0;
};

}  // namespace baleen
