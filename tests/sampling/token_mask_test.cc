#include "sampling/token_mask.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <vector>

namespace baleen {
namespace {

TEST(TokenMask, GathersTheAllowedInOrderOfId) {
  EXPECT_TRUE(rc::check([] {
    const auto size = *rc::gen::inRange<std::size_t>(1, 300);
    std::vector<float> logits(size);
    for (std::size_t id = 0; id < size; ++id) logits[id] = static_cast<float>(id) + 0.5f;
    std::vector<std::uint64_t> mask((size + 63) / 64);
    for (std::uint64_t& word : mask) {
      const auto kind = *rc::gen::inRange(0, 3);
      word = kind == 0 ? 0 : kind == 1 ? ~std::uint64_t{0} : *rc::gen::arbitrary<std::uint64_t>();
    }
    std::vector<TokenId> want;
    for (std::size_t id = 0; id < size; ++id)
      if (mask[id / 64] >> (id % 64) & 1) want.push_back(static_cast<TokenId>(id));

    std::vector<float> apart(size), in_place = logits;
    RC_ASSERT(gather_allowed(logits, mask, apart) == want.size());
    RC_ASSERT(gather_allowed(in_place, mask, in_place) == want.size());
    for (std::size_t rank = 0; rank < want.size(); ++rank) {
      RC_ASSERT(apart[rank] == logits[static_cast<std::size_t>(want[rank])]);
      RC_ASSERT(in_place[rank] == apart[rank]);
      RC_ASSERT(allowed_token(mask, rank) == want[rank]);
    }
  }));
}

}  // namespace
}  // namespace baleen
