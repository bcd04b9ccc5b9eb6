// Calls and replies as bytes and back; bytes that end too early.
#include "rank_engine/rank_message.h"

#include <gtest/gtest.h>

namespace baleen {
namespace {

TEST(RankMessage, ACallComesBack) {
  const std::vector<TokenId> tokens{1, 2, 3};
  RankCall call{
      .kind = RankCall::Kind::kCompute, .group = 2, .sequence = SequenceId{7}, .number = 9, .keep = true};
  call.tokens = tokens;
  call.inputs = {{}, {{SequenceId{4}, std::span(tokens).first(2), WantedLogits::kAll, {}, false}}};
  const SampleRow drawn{.temperature = 0.5, .uniform = 0.25};
  call.inputs[0] = {{.sequence = SequenceId{6}, .tokens = tokens, .draws = {&drawn, 1}, .num_drafts = 2}};
  call.drafts = {{{SequenceId{5}, 11, drawn}}, {{SequenceId{5}, 12}}};
  call.experts = {{.block = 3, .slots = {1, 0, 1}}, {.block = 4, .slots = {}}};
  call.transfers = {{.from_group = 1, .to_group = 2, .sent = SequenceId{8}, .end = 77, .last = true}, {}};
  const ReceivedCall received = call_from_bytes(to_bytes(call));
  EXPECT_EQ(received.call.transfers, call.transfers);
  EXPECT_EQ(received.call.experts, call.experts);
  EXPECT_EQ(received.call.kind, call.kind);
  EXPECT_EQ(received.call.group, 2);
  EXPECT_EQ(received.call.sequence, SequenceId{7});
  EXPECT_EQ(received.call.number, 9);
  EXPECT_TRUE(received.call.keep);
  EXPECT_TRUE(std::ranges::equal(received.call.tokens, tokens));
  ASSERT_EQ(received.call.inputs.size(), 2u);
  ASSERT_EQ(received.call.inputs[0].size(), 1u);
  EXPECT_EQ(received.call.inputs[0][0].num_drafts, 2);
  ASSERT_EQ(received.call.inputs[0][0].draws.size(), 1u);
  EXPECT_EQ(received.call.inputs[0][0].draws[0].uniform, 0.25);
  const StepInput& input = received.call.inputs[1].front();
  EXPECT_EQ(input.sequence, SequenceId{4});
  EXPECT_TRUE(std::ranges::equal(input.tokens, std::span(tokens).first(2)));
  EXPECT_EQ(input.wanted, WantedLogits::kAll);
  EXPECT_FALSE(input.wants_mtp_logits);
  EXPECT_TRUE(input.draws.empty());
  EXPECT_EQ(received.call.drafts[0].front().token, 11);
  EXPECT_EQ(received.call.drafts[0].front().draw->temperature, 0.5);
  EXPECT_FALSE(received.call.drafts[1].front().draw);
}

TEST(RankMessage, AReplyComesBack) {
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  RankReply reply{.number = -1, .failure = "no room"};
  reply.logits = {values.data(), {2, 3}};
  reply.cache_use.pages = {.total = 4, .free = 1, .cached = 2, .in_use = 1};
  reply.lookup = {.end = PrefixEnd::kNoTail,
                  .prompt_tokens = 900,
                  .found_tokens = 256,
                  .first_difference = 700,
                  .cached_tokens = {5, 6},
                  .lost_tokens = 256};
  reply.expert_load = {{1, 2}, {3, 4}};
  reply.refusals = {"", "pool keys: lost"};
  const std::vector<TokenId> chosen{7, 8}, drafted{9};
  reply.chosen = chosen;
  reply.drafted = drafted;
  const ReceivedReply received = reply_from_bytes(to_bytes(reply));
  EXPECT_EQ(received.reply.number, -1);
  EXPECT_EQ(received.reply.failure, "no room");
  EXPECT_EQ(received.logits, values);
  EXPECT_EQ(received.reply.logits.extent(0), 2);
  EXPECT_TRUE(received.reply.mtp_logits.empty());
  EXPECT_EQ(received.reply.cache_use.pages.cached, 2);
  EXPECT_EQ(received.reply.lookup, reply.lookup);
  EXPECT_EQ(received.reply.expert_load, reply.expert_load);
  EXPECT_EQ(received.reply.refusals, reply.refusals);
  EXPECT_TRUE(std::ranges::equal(received.reply.chosen, chosen));
  EXPECT_TRUE(std::ranges::equal(received.reply.drafted, drafted));
}

TEST(RankMessage, BytesThatEndTooEarlyAreRefused) {
  const std::vector<TokenId> tokens{1, 2, 3};
  RankCall call{.kind = RankCall::Kind::kOpen};
  call.tokens = tokens;
  call.inputs = {{{SequenceId{4}, tokens}}};
  const std::vector<std::byte> bytes = to_bytes(call);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_THROW(static_cast<void>(call_from_bytes(std::span(bytes).first(size))), Error) << size;
}

}  // namespace
}  // namespace baleen
