#include "rank_engine/state_manifest.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>

#include "base/message_bytes.h"
#include "base/number.h"

namespace baleen {
namespace {

std::string amount(const StateManifest::Pool& pool) {
  return fmt::format("{} parts of {} bytes in all", grouped(pool.num_parts), grouped(pool.num_bytes));
}

}  // namespace

StateManifest::Pool& StateManifest::pool(std::string_view name) {
  const auto found = std::ranges::find(pools_, name, &Pool::name);
  if (found != pools_.end()) return *found;
  return pools_.emplace_back(Pool{.name = std::string(name)});
}

const StateManifest::Pool* StateManifest::find(std::string_view name) const {
  const auto found = std::ranges::find(pools_, name, &Pool::name);
  return found == pools_.end() ? nullptr : &*found;
}

void StateManifest::count(std::span<const PoolRange> ranges) {
  for (const PoolRange& range : ranges) {
    Pool& one = pool(range.pool);
    ++one.num_parts;
    one.num_bytes += range.num_bytes;
  }
}

void StateManifest::add(std::span<const PoolRange> ranges, std::span<const std::byte> bytes) {
  for (const PoolRange& range : ranges) {
    const auto part =
        bytes.subspan(static_cast<std::size_t>(range.offset), static_cast<std::size_t>(range.num_bytes));
    Pool& one = pool(range.pool);
    one.checksum = XXH3_64bits_withSeed(part.data(), part.size(), one.checksum);
  }
}

std::int64_t StateManifest::num_bytes() const {
  std::int64_t sum = 0;
  for (const Pool& pool : pools_) sum += pool.num_bytes;
  return sum;
}

std::vector<std::byte> StateManifest::to_bytes() const {
  MessageWriter out;
  out.text(identity_);
  out.value(std::ssize(pools_));
  for (const Pool& pool : pools_) {
    out.text(pool.name);
    out.value(pool.num_parts);
    out.value(pool.num_bytes);
    out.value(pool.checksum);
  }
  return out.take();
}

StateManifest StateManifest::from_bytes(std::span<const std::byte> bytes) {
  MessageReader in(bytes);
  StateManifest manifest(in.text());
  constexpr std::size_t kLeastPoolBytes = 32;  // a name's length and three numbers
  manifest.pools_.resize(static_cast<std::size_t>(in.count(kLeastPoolBytes)));
  for (Pool& pool : manifest.pools_) {
    pool.name = in.text();
    pool.num_parts = in.value<std::int64_t>();
    pool.num_bytes = in.value<std::int64_t>();
    pool.checksum = in.value<std::uint64_t>();
  }
  return manifest;
}

std::optional<Failure> StateManifest::difference(const StateManifest& found) const {
  if (found.identity_ != identity_) {
    return failure("the state is of another cache: expected {}, found {}; run the same model and plan",
                   identity_, found.identity_);
  }
  for (const Pool& want : pools_) {
    const Pool* const got = found.find(want.name);
    if (got == nullptr) return failure("pool {}: expected {}, found none of it", want.name, amount(want));
    if (got->num_parts != want.num_parts || got->num_bytes != want.num_bytes) {
      return failure("pool {}: expected {}, found {}", want.name, amount(want), amount(*got));
    }
    if (got->checksum != want.checksum) {
      return failure("pool {}: {} arrived with checksum {:016x}, but {:016x} was sent; the bytes changed",
                     want.name, amount(want), want.checksum, got->checksum);
    }
  }
  for (const Pool& got : found.pools_) {
    if (find(got.name) == nullptr) {
      return failure("pool {}: expected none of it, found {}", got.name, amount(got));
    }
  }
  if (found.pools_.size() != pools_.size()) {
    return failure("{} pools are expected, found {}: one of them twice", pools_.size(), found.pools_.size());
  }
  return std::nullopt;
}

}  // namespace baleen
