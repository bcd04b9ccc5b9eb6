#include "generation/stop_detector.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <utility>

namespace baleen {
namespace {

struct Outcome {
  std::string shown;
  std::optional<std::size_t> stop_idx;
};

// Looks at every prefix of the whole text in turn, and at every stop string in each.
Outcome naive(const std::vector<std::string>& stops, const std::string& text) {
  for (std::size_t end = 0; end <= text.size(); ++end) {
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < stops.size(); ++i) {
      if (stops[i].empty() || !std::string_view(text).substr(0, end).ends_with(stops[i])) continue;
      if (!best || stops[i].size() > stops[*best].size()) best = i;
    }
    if (best) return {text.substr(0, end - stops[*best].size()), best};
  }
  return {text, std::nullopt};
}

std::size_t longest_possible_start(const std::vector<std::string>& stops, const std::string& text) {
  std::size_t longest = 0;
  for (const auto& stop : stops) {
    for (std::size_t n = 1; n < stop.size() && n <= text.size(); ++n) {
      if (text.ends_with(stop.substr(0, n))) longest = std::max(longest, n);
    }
  }
  return longest;
}

std::string few_letters(int max_size) {
  return *rc::gen::resize(max_size, rc::gen::container<std::string>(rc::gen::element('a', 'b')));
}

TEST(StopDetector, AgreesWithANaiveSearchHoweverTheTextIsCut) {
  EXPECT_TRUE(rc::check([] {
    std::vector<std::string> stops(*rc::gen::element<std::size_t>(0, 1, 2, 3));
    for (auto& stop : stops) stop = few_letters(7);
    const std::string text = few_letters(60);
    StopDetector detector(stops);
    std::string shown, fed;
    while (fed.size() < text.size()) {
      const auto size = *rc::gen::element<std::size_t>(0, 1, 1, 2, 3, 5, 8);
      const std::string piece = text.substr(fed.size(), size);
      fed += piece;
      shown += detector.feed(piece);
      const Outcome so_far = naive(stops, fed);
      RC_ASSERT(detector.stopped() == so_far.stop_idx.has_value());
      // Nothing is held back that could be shown.
      if (detector.stopped()) {
        RC_ASSERT(shown == so_far.shown);
      } else {
        RC_ASSERT(shown == fed.substr(0, fed.size() - longest_possible_start(stops, fed)));
      }
    }
    shown += detector.finish();
    const Outcome want = naive(stops, text);
    RC_ASSERT(shown == want.shown);
    if (want.stop_idx) RC_ASSERT(detector.stop_idx() == *want.stop_idx);
  }));
}

TEST(StopDetector, HoldsBackOnlyWhatMayBeginAStop) {
  StopDetector detector({"END", "\n\n"});
  EXPECT_EQ(detector.feed("once upon\n"), "once upon");
  EXPECT_EQ(detector.feed("a time E"), "\na time ");
  EXPECT_EQ(detector.feed("N"), "");
  EXPECT_EQ(detector.feed("T END"), "ENT ");
  EXPECT_TRUE(detector.stopped());
  EXPECT_EQ(detector.stop_idx(), 0u);
  EXPECT_EQ(detector.feed("more"), "");
  EXPECT_EQ(detector.finish(), "");
}

TEST(StopDetector, TextThatEndsInsideAPossibleStopIsShownWhole) {
  StopDetector detector({"END"});
  EXPECT_EQ(detector.feed("the EN"), "the ");
  EXPECT_EQ(detector.finish(), "EN");
  EXPECT_FALSE(detector.stopped());
}

TEST(StopDetector, OfStopsThatEndTogetherTheLongestCounts) {
  StopDetector detector({"c", "bc", "abc"});
  EXPECT_EQ(detector.feed("xabcd"), "x");
  EXPECT_EQ(detector.stop_idx(), 2u);
}

TEST(StopDetector, TheStopThatEndsFirstCountsThoughAnotherBeganEarlier) {
  StopDetector detector({"abcd", "bc"});
  EXPECT_EQ(detector.feed("abcd"), "a");
  EXPECT_EQ(detector.stop_idx(), 1u);
}

TEST(StopDetector, WithoutStopsEverythingIsShownAtOnce) {
  StopDetector none({}), only_empty({""});
  EXPECT_EQ(none.feed("text"), "text");
  EXPECT_EQ(only_empty.feed("text"), "text");
}

TEST(StopDetector, NeverSplitsACharacter) {
  StopDetector detector({"é!"});
  EXPECT_EQ(detector.feed("è"), "è");  // shares its first byte with é
  EXPECT_EQ(detector.feed("é"), "");
  EXPECT_EQ(detector.feed("è"), "éè");
}

}  // namespace
}  // namespace baleen
