// Rows of steps from every place: the same bits, each row once, ahead of the step or not, and what is said of
// files that end early.
#include "engram/engram_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "base/error.h"
#include "tests/engram/small_tables.h"
#include "tests/support/compare.h"
#include "tests/support/counted_memory.h"

namespace baleen {
namespace {

constexpr std::int64_t kMaxRows = 64;
constexpr EngramPlace kPlaces[] = {EngramPlace::kDevice, EngramPlace::kHost, EngramPlace::kMapped,
                                   EngramPlace::kDisk};

class StoredRows : public testing::Test {
 protected:
  [[nodiscard]] std::unique_ptr<EngramStore> store(EngramPlace place, Memory& device = host_memory(),
                                                   Memory& host = host_memory()) const {
    auto tables = std::make_shared<EngramTables>(stored_engram_tables(small_.config, checkpoint_), place,
                                                 host_memory());
    return std::make_unique<EngramStore>(EngramHashes(small_.config, test::small_compressed_ids()),
                                         std::move(tables), kMaxRows, device, host);
  }

  /// Rows of both tables, one behind the other, of the step's tokens [begin, end).
  static std::vector<float> look_up(const EngramStore& store, std::int64_t begin, std::int64_t end) {
    constexpr std::int64_t kWidth = 6 * 40;
    std::vector<float> z(static_cast<std::size_t>(2 * (end - begin) * kWidth));
    for (const std::int64_t table : {0, 1}) {
      engram_lookup_ref(store.lookup(table, begin, end,
                                     {z.data() + table * (end - begin) * kWidth, {end - begin, kWidth}}));
    }
    return z;
  }
  static std::vector<float> step(EngramStore& store, const std::vector<EngramRun>& runs) {
    store.begin(runs);
    std::int64_t count = 0;
    for (const EngramRun& run : runs) count += std::ssize(run.ids);
    return look_up(store, 0, count);
  }

  /// By the tensors' bytes and the hashes alone.
  [[nodiscard]] std::vector<float> expected(const std::vector<TokenId>& ids) const {
    const std::vector<TokenId> compressed = test::small_compressed_ids();
    const std::vector<EngramTable> tables = engram_tables(*small_.config.engram);
    const auto stored = stored_engram_tables(small_.config, checkpoint_);
    std::vector<float> all;
    for (std::size_t i = 0; i < 2; ++i) {
      std::vector<std::int64_t> rows(ids.size() * 6);
      engram_rows(tables[i], {.compressed = compressed, .pad_token = 2, .image_token = 31}, {}, ids,
                  {rows.data(), {std::ssize(ids), 6}});
      std::vector<float> z(rows.size() * 40);
      engram_lookup_ref({.rows = {rows.data(), {std::ssize(ids), 6}},
                         .codes = stored[i].codes,
                         .scales = stored[i].scales,
                         .z = {z.data(), {std::ssize(ids), 240}}});
      all.insert(all.end(), z.begin(), z.end());
    }
    return all;
  }

  test::SmallTables small_;
  Checkpoint checkpoint_{small_.folder()};
  std::vector<TokenId> ids_{5, 9, 31, 7, 5, 5, 1, 0, 30, 4, 3, 3, 8, 1, 9, 5, 9, 31, 7, 5};
};

TEST_F(StoredRows, HaveTheSameBitsFromEveryPlace) {
  const std::vector<float> want = expected(ids_);
  for (const EngramPlace place : kPlaces)
    EXPECT_SAME_BITS(step(*store(place), {{{}, ids_}}), want) << engram_place_name(place);
}

TEST_F(StoredRows, ArePiecesOfTheWhole) {
  const std::vector<float> want = expected(ids_);
  const std::span<const TokenId> all(ids_);
  for (const EngramPlace place : kPlaces) {
    const auto rows = store(place);
    std::vector<float> first, second;
    for (const auto& [begin, end] : {std::pair<std::size_t, std::size_t>{0, 7}, {7, 8}, {8, 9}, {9, 20}}) {
      // A step whose tokens are taken back leaves nothing: what precedes tokens is all the state.
      const std::vector<TokenId> rejected{1, 1, 1};
      static_cast<void>(step(*rows, {{all.first(begin), rejected}}));
      const auto before = all.first(begin).last(std::min<std::size_t>(begin, 3));
      const std::vector<float> z = step(*rows, {{before, all.subspan(begin, end - begin)}});
      const auto half = z.begin() + std::ssize(z) / 2;
      first.insert(first.end(), z.begin(), half);
      second.insert(second.end(), half, z.end());
    }
    first.insert(first.end(), second.begin(), second.end());
    EXPECT_SAME_BITS(first, want) << engram_place_name(place);
  }
}

TEST_F(StoredRows, OfPartsOfAStepAreThoseOfTheStep) {
  for (const EngramPlace place : kPlaces) {
    const auto rows = store(place);
    const std::vector<float> whole = step(*rows, {{{}, ids_}}), part = look_up(*rows, 3, 8);
    for (std::size_t table = 0; table < 2; ++table) {
      EXPECT_SAME_BITS(std::span(part).subspan(table * 5 * 240, 5 * 240),
                       std::span(whole).subspan((table * ids_.size() + 3) * 240, 5 * 240));
    }
  }
}

/// Rows of padding are read too: at addresses that stay, of bytes that are there.
TEST_F(StoredRows, AddressesStayFromStepToStep) {
  for (const EngramPlace place : kPlaces) {
    const auto rows = store(place);
    std::vector<float> z(kMaxRows * 240);
    const auto arguments = [&] { return rows->lookup(1, 0, kMaxRows, {z.data(), {kMaxRows, 240}}); };
    const EngramLookupArgs before = arguments();
    engram_lookup_ref(before);
    static_cast<void>(step(*rows, {{{}, ids_}}));
    const EngramLookupArgs after = arguments();
    EXPECT_EQ(before.rows.data(), after.rows.data());
    EXPECT_EQ(before.codes.data(), after.codes.data());
    EXPECT_EQ(before.scales.data(), after.scales.data());
    engram_lookup_ref(after);
  }
}

TEST_F(StoredRows, ComeFromDiskOnceEach) {
  const auto rows = store(EngramPlace::kDisk);
  const std::vector<TokenId> same(40, 7);
  static_cast<void>(step(*rows, {{{}, same}}));
  // From the fourth token on all n-grams are the same; three before it see the padding. The rows of a token
  // may be equal by chance within one hash alone, which for these tokens they are not.
  std::set<EngramRowId> distinct;
  const EngramHashes hashes(small_.config, test::small_compressed_ids());
  std::vector<std::int64_t> found(same.size() * 12);
  const std::vector<EngramRun> runs{{{}, same}};
  hashes.find(runs, {found.data(), {40, 2, 6}});
  for (std::size_t i = 0; i < found.size(); ++i)
    distinct.insert({static_cast<std::int64_t>(i / 6 % 2), found[i]});
  EXPECT_LE(distinct.size(), 4U * 12U);
  EXPECT_EQ(rows->num_fetched(), std::ssize(distinct));
}

TEST_F(StoredRows, ComeAheadOfTheStepOrWithIt) {
  const std::span<const TokenId> all(ids_);
  const auto run = [&](std::size_t begin, std::size_t end) {
    return std::vector<EngramRun>{{all.first(begin), all.subspan(begin, end - begin)}};
  };
  for (const EngramPlace place : kPlaces) {
    const auto alone = store(place), ahead = store(place);
    ahead->prefetch(run(0, 6));
    ahead->begin(run(0, 6));
    ahead->prefetch(run(6, 12));  // while the step before it runs
    EXPECT_SAME_BITS(look_up(*ahead, 0, 6), step(*alone, run(0, 6))) << engram_place_name(place);
    ahead->begin(run(6, 12));
    EXPECT_SAME_BITS(look_up(*ahead, 0, 6), step(*alone, run(6, 12))) << engram_place_name(place);
    // Another step than was expected: by its tokens, by what precedes them, by how many there are.
    ahead->prefetch(run(0, 6));
    EXPECT_SAME_BITS(step(*ahead, run(12, 18)), step(*alone, run(12, 18))) << engram_place_name(place);
    ahead->prefetch(std::vector<EngramRun>{{all.first(1), all.subspan(6, 6)}});
    EXPECT_SAME_BITS(step(*ahead, run(6, 12)), step(*alone, run(6, 12))) << engram_place_name(place);
    ahead->prefetch(run(0, 6));
    EXPECT_SAME_BITS(step(*ahead, run(0, 5)), step(*alone, run(0, 5))) << engram_place_name(place);
    ahead->prefetch(run(0, 6));  // and given up
  }
}

/// What is requested before a step is found by it, run by run: of a sequence as far as its tokens are those,
/// beside others, in another order.
TEST_F(StoredRows, AreFoundAheadAsFarAsTokensAgree) {
  const std::span<const TokenId> all(ids_);
  const EngramRun prompt{all.first(4), all.subspan(4, 8)}, reply{{}, all.subspan(15, 3)};
  const auto two = [](const EngramRun& first, const EngramRun& second) {
    return std::vector<EngramRun>{first, second};
  };
  for (const EngramPlace place : kPlaces) {
    SCOPED_TRACE(engram_place_name(place));
    const auto alone = store(place), ahead = store(place);
    const auto expect = [&](const std::vector<EngramRun>& runs, std::int64_t num_tokens_ahead) {
      EXPECT_SAME_BITS(step(*ahead, runs), step(*alone, runs));
      EXPECT_EQ(ahead->num_tokens_ahead(), num_tokens_ahead);
      EXPECT_EQ(ahead->num_fetched(), alone->num_fetched());
      EXPECT_EQ(alone->num_tokens_ahead(), 0);
      EXPECT_EQ(alone->num_fetched_ahead(), 0);
    };
    ahead->prefetch(two(prompt, reply));
    expect(two(reply, prompt), 11);
    EXPECT_EQ(ahead->num_fetched_ahead(), ahead->num_fetched()) << "nothing was left to fetch";
    // Link by link; the step has one more.
    for (const std::size_t count : {1, 2})
      ahead->prefetch(std::vector<EngramRun>{{{}, reply.ids.first(count)}});
    expect({reply}, 2);
    // Fewer tokens than were expected, others behind them, more.
    for (const std::size_t count : {3, 8}) {
      ahead->prefetch({&prompt, 1});
      expect({{prompt.before, prompt.ids.first(count)}}, static_cast<std::int64_t>(count));
    }
    ahead->prefetch({&prompt, 1});
    std::vector<TokenId> other(prompt.ids.begin(), prompt.ids.end());
    other[5] = 17;
    expect({{prompt.before, other}}, 5);
    ahead->prefetch({&prompt, 1});
    expect({{prompt.before, all.subspan(4, 16)}}, 8);
    // Nothing is left of a guess that a step has followed.
    expect({prompt}, 0);
  }
}

TEST_F(StoredRows, OfTheStepAfterComeWhenTheStepHasBegun) {
  const std::span<const TokenId> all(ids_);
  const EngramRun first{{}, all.first(6)}, second{all.first(6), all.subspan(6, 7)};
  for (const EngramPlace place : kPlaces) {
    SCOPED_TRACE(engram_place_name(place));
    const auto alone = store(place), ahead = store(place);
    ahead->prefetch({&first, 1});
    ahead->prefetch_behind_step({&second, 1});
    EXPECT_SAME_BITS(step(*ahead, {first}), step(*alone, {first}));
    EXPECT_EQ(ahead->num_tokens_ahead(), 6);
    EXPECT_EQ(ahead->num_fetched(), alone->num_fetched()) << "only the step's own";
    ahead->step_is_under_way();
    EXPECT_SAME_BITS(step(*ahead, {second}), step(*alone, {second}));
    EXPECT_EQ(ahead->num_tokens_ahead(), 7);
    // Once alone.
    EXPECT_SAME_BITS(step(*ahead, {second}), step(*alone, {second}));
    EXPECT_EQ(ahead->num_tokens_ahead(), 0);
  }
}

/// More than a step's rows have room for: what is too much is passed over, and the step has all that it
/// wants.
TEST_F(StoredRows, OfTooManyTokensLeaveRoomForTheStep) {
  std::vector<std::vector<TokenId>> many;
  for (TokenId first = 0; first < 9; ++first) {
    std::vector<TokenId>& ids = many.emplace_back();
    for (TokenId i = 0; i < 16; ++i) ids.push_back((first * 11 + i * (first + 3)) % 30);
  }
  for (const EngramPlace place : kPlaces) {
    SCOPED_TRACE(engram_place_name(place));
    const auto alone = store(place), ahead = store(place);
    for (const std::vector<TokenId>& ids : many) ahead->prefetch(std::vector<EngramRun>{{{}, ids}});
    std::vector<EngramRun> runs;
    for (const std::size_t i : {8, 7, 6, 0}) runs.push_back({{}, many[i]});
    EXPECT_SAME_BITS(step(*ahead, runs), step(*alone, runs));
    EXPECT_EQ(ahead->num_fetched(), alone->num_fetched());
  }
}

TEST_F(StoredRows, AStepWithoutTokensReadsNothing) {
  for (const EngramPlace place : kPlaces) store(place)->begin({});
}

TEST_F(StoredRows, TakeWhatIsSaid) {
  for (const EngramPlace place : kPlaces) {
    test::CountedMemory device, host;
    const auto rows = store(place, device, host);
    EXPECT_EQ(device.num_bytes(), EngramStore::device_bytes(*small_.config.engram, place, kMaxRows));
    EXPECT_EQ(host.num_bytes(), EngramStore::host_bytes(*small_.config.engram, place, kMaxRows));
  }
  // Of V4.1, a prompt's step: rows of two tables of 264 bytes, in records.
  const ModelConfig released = parse_config(test::v41_config().dump(), "config.json");
  EXPECT_EQ(EngramStore::device_bytes(*released.engram, EngramPlace::kDisk, 8192), 8192 * 48 * (8 + 272));
  EXPECT_EQ(EngramStore::device_bytes(*released.engram, EngramPlace::kHost, 8192), 8192 * 48 * 8);
}

/// The sentence about a file that is cut after it was opened.
TEST_F(StoredRows, AFileThatIsCutIsNamedWithTheRow) {
  const auto rows = store(EngramPlace::kDisk);
  const auto tables = stored_engram_tables(small_.config, checkpoint_);
  const auto* const begin = checkpoint_.files().front()->bytes().data();
  // Behind the codes of the first rows of whichever table lies first in the file.
  const auto lies_first = std::ranges::min_element(tables, {}, [](const auto& t) { return t.codes.data(); });
  const auto offset = reinterpret_cast<const std::byte*>(lies_first->codes.data()) - begin;
  std::filesystem::resize_file(small_.file(), static_cast<std::uintmax_t>(offset + 3 * 40 + 7));
  try {
    rows->begin(std::vector<EngramRun>{{{}, ids_}});
    FAIL() << "the file was read";
  } catch (const LostDevice& error) {
    const std::string why = error.what();
    EXPECT_NE(why.find("row "), std::string::npos) << why;
    EXPECT_NE(why.find(".engram.embed\": " + small_.file().string() + ": cannot be read: it ends after"),
              std::string::npos)
        << why;
  }
  // The next step fails likewise; rows of a step that is given up do not matter.
  EXPECT_THROW(rows->begin(std::vector<EngramRun>{{{}, ids_}}), LostDevice);
  rows->prefetch(std::vector<EngramRun>{{{}, ids_}});
  rows->prefetch({});
  rows->begin({});
}

TEST_F(StoredRows, AFileThatIsCutBeforeItIsCopiedIsRefused) {
  std::filesystem::resize_file(small_.file(), 1000);
  for (const EngramPlace place : {EngramPlace::kDevice, EngramPlace::kHost, EngramPlace::kDisk}) {
    try {
      static_cast<void>(store(place));
      FAIL() << engram_place_name(place);
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()),
                small_.file().string() + ": is not the file any more that was opened at first");
    }
  }
}

TEST_F(StoredRows, TablesInNoFileAreNotReadFromDisk) {
  std::vector<StoredEngramTable> stored = stored_engram_tables(small_.config, checkpoint_);
  stored[1].codes_file = nullptr;
  try {
    const EngramTables tables(stored, EngramPlace::kDisk, host_memory());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "\"layers.3.engram.embed\" lies in no file of ours, so its rows cannot be read from disk; try "
              "host");
  }
}

}  // namespace
}  // namespace baleen
