/// What a sequence's state consists of when one group of ranks sends it to another: every pool by its name,
/// with counts and checksums. Sender and receiver each make one, from what they hold and from what they
/// expect; state is adopted only where the two are equal, so no pool can be left out or altered unnoticed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "kv_cache/kv_cache.h"

namespace baleen {

class StateManifest {
 public:
  struct Pool {
    std::string name;
    std::int64_t num_parts = 0;  ///< a block's part of a page, a ring, a row of streams
    std::int64_t num_bytes = 0;
    std::uint64_t checksum = 0;  ///< XXH3 of all parts in their order
  };

  StateManifest() = default;
  /// `identity`: all that decides what bytes given tokens have.
  explicit StateManifest(std::string identity) : identity_(std::move(identity)) {}

  /// Counts a page, slot or row of these ranges.
  void count(std::span<const PoolRange> ranges);
  /// Continues the checksums with its bytes.
  void add(std::span<const PoolRange> ranges, std::span<const std::byte> bytes);

  [[nodiscard]] const std::vector<Pool>& pools() const { return pools_; }
  [[nodiscard]] std::int64_t num_bytes() const;

  [[nodiscard]] std::vector<std::byte> to_bytes() const;
  /// Throws `Error` for bytes that are no manifest.
  [[nodiscard]] static StateManifest from_bytes(std::span<const std::byte> bytes);

  /// Where `found` is not this one: the pool, what is expected of it and what was found.
  [[nodiscard]] std::optional<Failure> difference(const StateManifest& found) const;

 private:
  [[nodiscard]] Pool& pool(std::string_view name);
  [[nodiscard]] const Pool* find(std::string_view name) const;

  std::string identity_;
  std::vector<Pool> pools_;
};

}  // namespace baleen
