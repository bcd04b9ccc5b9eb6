// Pages counted over memory that does not exist, lazily, against the table that gets every token.
#include "simulator/serving/simulated_sequences.h"

#include <gtest/gtest.h>

#include <random>

#include "model/decoder_half.h"
#include "tests/simulator/serving/small_server.h"

namespace baleen {
namespace {

using Random = std::mt19937_64;

std::int64_t between(Random& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution(low, high)(random);
}

void expect_equal(const PoolUse& a, const PoolUse& b) {
  EXPECT_EQ(a.free, b.free);
  EXPECT_EQ(a.cached, b.cached);
  EXPECT_EQ(a.in_use, b.in_use);
}

TEST(UnbackedMemory, CannotBeTouched) {
  UnbackedMemory memory;
  constexpr std::int64_t kTerabyte = std::int64_t{1} << 40;
  std::byte* const data = memory.allocate(8 * kTerabyte);
  EXPECT_DEATH(data[kTerabyte] = std::byte{1}, "");
  EXPECT_DEATH(EXPECT_EQ(data[0], std::byte{0}), "");
  memory.copy(data, data + kTerabyte, kTerabyte);
  memory.release(data, 8 * kTerabyte);
}

class Sequences : public testing::TestWithParam<std::uint64_t> {};

/// Every operation at once on both; whatever can be asked must be the same after each.
TEST_P(Sequences, AreAsIfTheTableWereToldEveryToken) {
  Random random(GetParam());
  const std::int64_t max_drafts = between(random, 0, 4);
  const CacheGeometry geometry = small_geometry(max_drafts);
  const CacheCapacity capacity{between(random, 4, 30), between(random, 4, 30), between(random, 1, 6)};
  KvCache cache(geometry, capacity);
  const std::int64_t replay = between(random, 0, 1) == 0 ? 0 : between(random, 128, 500);
  SequenceTable table(cache, 1, replay > 0);
  SimulatedSequences sequences(geometry, capacity, 1, replay > 0);

  struct Open {
    SequenceId real{}, simulated{};
    TokenStream stream;
  };
  std::vector<Open> open;
  const auto tokens = [](const TokenStream& stream, std::int64_t begin, std::int64_t count) {
    std::vector<TokenId> some(static_cast<std::size_t>(count));
    fill_tokens(stream, begin, some);
    return some;
  };
  for (int operation = 0; operation < 600; ++operation) {
    const std::int64_t what = open.empty() ? 0 : between(random, 0, 9);
    if (what == 0) {
      const TokenStream stream{.family = static_cast<std::uint64_t>(between(random, 0, 2)),
                               .family_tokens = between(random, 0, 700),
                               .own = static_cast<std::uint64_t>(between(random, 10, 14))};
      const std::int64_t prompt = between(random, 1, 900);
      const std::int64_t decoder_begin = decoder_begin_of(prompt, replay);
      const auto real = table.open(tokens(stream, 0, prompt), decoder_begin);
      const auto simulated = sequences.open(stream, prompt, decoder_begin);
      ASSERT_EQ(real.has_value(), simulated.has_value());
      if (!real) continue;
      EXPECT_EQ(sequences.decoder_begin(*simulated), decoder_begin);
      open.push_back({*real, *simulated, stream});
    } else {
      const auto which = static_cast<std::size_t>(between(random, 0, std::ssize(open) - 1));
      const Open chosen = open[which];
      const std::int64_t length = table.length(chosen.real);
      if (what <= 7) {
        const std::int64_t count =
            between(random, 0, 3) == 0 ? between(random, 1, 300) : between(random, 1, 5);
        const bool has_room = table.reserve(chosen.real, count);
        ASSERT_EQ(sequences.reserve(chosen.simulated, count), has_room);
        if (!has_room) continue;
        table.commit(chosen.real, tokens(chosen.stream, length, count));
        if (count <= max_drafts + 1 && between(random, 0, 1) == 0) {
          const std::int64_t kept = between(random, 1, count);
          if (kept < count) table.truncate(chosen.real, length + kept);
          sequences.feed_drafts(chosen.simulated, count, kept);
        } else {
          sequences.feed(chosen.simulated, count);
        }
      } else if (what == 8) {
        table.share(chosen.real);
        sequences.share(chosen.simulated);
      } else {
        const bool keep = between(random, 0, 3) > 0;
        table.close(chosen.real, keep);
        sequences.close(chosen.simulated, keep);
        open.erase(open.begin() + static_cast<std::ptrdiff_t>(which));
      }
    }
    for (const Open& each : open) ASSERT_EQ(sequences.length(each.simulated), table.length(each.real));
    if (between(random, 0, 30) > 0) continue;
    const CacheUse got = sequences.cache_use(), want = table.cache_use();
    expect_equal(got.pages, want.pages);
    expect_equal(got.window_pages, want.window_pages);
    expect_equal(got.state_slots, want.state_slots);
    sequences.check_integrity();
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Sequences, testing::Range<std::uint64_t>(0, 60));

TEST(TokenStream, FollowsFromPositionAlone) {
  const TokenStream stream{.family = 3, .family_tokens = 101, .own = 4};
  std::vector<TokenId> whole(1000);
  fill_tokens(stream, 0, whole);
  for (const std::int64_t begin : {0, 1, 7, 8, 100, 101, 102, 500}) {
    std::vector<TokenId> part(static_cast<std::size_t>(std::min<std::int64_t>(300, 1000 - begin)));
    fill_tokens(stream, begin, part);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + begin)) << begin;
  }
  for (const TokenId token : whole) EXPECT_TRUE(token >= 0 && token < kTokenStreamVocab);
}

TEST(TokenStream, FamiliesAgreeAndThenPart) {
  std::vector<TokenId> a(256), b(256);
  fill_tokens({.family = 9, .family_tokens = 250, .own = 1}, 0, a);
  fill_tokens({.family = 9, .family_tokens = 250, .own = 2}, 0, b);
  EXPECT_TRUE(std::equal(a.begin(), a.begin() + 250, b.begin()));
  EXPECT_NE(a, b);
}

}  // namespace
}  // namespace baleen
