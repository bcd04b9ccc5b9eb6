// What is refused of a state that is sent: every pool by its name.
#include "rank_engine/state_manifest.h"

#include <gtest/gtest.h>

#include <random>

namespace baleen {
namespace {

const std::vector<PoolRange> kRanges{{"keys", 0, 5}, {"rows", 5, 3}, {"keys", 8, 4}};

std::vector<std::byte> random_bytes(std::size_t count) {
  static std::mt19937 random(std::random_device{}());
  std::vector<std::byte> bytes(count);
  for (std::byte& one : bytes) one = static_cast<std::byte>(random());
  return bytes;
}

StateManifest manifest_of(std::span<const std::vector<std::byte>> entries) {
  StateManifest manifest("model a");
  for (const std::vector<std::byte>& entry : entries) {
    manifest.count(kRanges);
    manifest.add(kRanges, entry);
  }
  return manifest;
}

std::string sentence(const StateManifest& expected, const StateManifest& found) {
  const std::optional<Failure> failed = expected.difference(found);
  return failed ? failed->message : "";
}

TEST(StateManifest, CountsPartsAndBytesOfEachPool) {
  const std::vector<std::vector<std::byte>> entries{random_bytes(12), random_bytes(12)};
  const StateManifest manifest = manifest_of(entries);
  ASSERT_EQ(manifest.pools().size(), 2u);
  EXPECT_EQ(manifest.pools()[0].name, "keys");
  EXPECT_EQ(manifest.pools()[0].num_parts, 4);
  EXPECT_EQ(manifest.pools()[0].num_bytes, 18);
  EXPECT_EQ(manifest.pools()[1].num_parts, 2);
  EXPECT_EQ(manifest.num_bytes(), 24);
  EXPECT_EQ(sentence(manifest, manifest_of(entries)), "");
  EXPECT_EQ(sentence(StateManifest("model a"), StateManifest("model a")), "");
}

TEST(StateManifest, ComesBackFromItsBytes) {
  const std::vector<std::vector<std::byte>> entries{random_bytes(12)};
  const StateManifest manifest = manifest_of(entries);
  const std::vector<std::byte> bytes = manifest.to_bytes();
  EXPECT_EQ(sentence(manifest, StateManifest::from_bytes(bytes)), "");
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_THROW(static_cast<void>(StateManifest::from_bytes(std::span(bytes).first(size))), Error);
  // Absurd counts take no memory.
  std::vector<std::byte> absurd(bytes.size(), std::byte{0x7F});
  EXPECT_THROW(static_cast<void>(StateManifest::from_bytes(absurd)), Error);
}

TEST(StateManifest, NamesThePoolThatDiffers) {
  const std::vector<std::vector<std::byte>> entries{random_bytes(12), random_bytes(12)};
  const StateManifest expected = manifest_of(entries);
  const auto refused = [&](const StateManifest& found) { return sentence(expected, found); };
  EXPECT_EQ(refused(StateManifest("model b")),
            "the state is of another cache: expected model a, found model b; run the same model and plan");
  EXPECT_EQ(refused(StateManifest("model a")),
            "pool keys: expected 4 parts of 18 bytes in all, found none of it");
  EXPECT_EQ(refused(manifest_of(std::span(entries).first(1))),
            "pool keys: expected 4 parts of 18 bytes in all, found 2 parts of 9 bytes in all");
  StateManifest more = expected;
  const std::vector<PoolRange> other{{"rings", 0, 2}};
  more.count(other);
  EXPECT_EQ(refused(more), "pool rings: expected none of it, found 1 parts of 2 bytes in all");
  EXPECT_NE(sentence(more, expected).find("pool rings: expected 1 parts"), std::string::npos);
}

TEST(StateManifest, EveryByteAndTheirOrderCount) {
  std::vector<std::vector<std::byte>> entries{random_bytes(12), random_bytes(12)};
  entries[1][6] = entries[0][6] ^ std::byte{1};
  const StateManifest expected = manifest_of(entries);
  for (std::size_t at = 0; at < 12; ++at) {
    std::vector<std::vector<std::byte>> altered = entries;
    altered[1][at] ^= std::byte{0x10};
    const std::string name = at >= 5 && at < 8 ? "rows" : "keys";
    EXPECT_EQ(sentence(expected, manifest_of(altered)).find("pool " + name + ": "), 0u) << at;
  }
  std::swap(entries[0], entries[1]);
  EXPECT_NE(sentence(expected, manifest_of(entries)), "");
}

}  // namespace
}  // namespace baleen
