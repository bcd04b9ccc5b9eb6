// Calls and replies as bytes and back; bytes that end too early.
#include "rank_engine/rank_message.h"

#include <gtest/gtest.h>

namespace baleen {
namespace {

/// A call of this kind as it comes back.
template <class Call>
Call received(const ReceivedCall& call) {
  return std::get<Call>(call.call.what);
}

const std::vector<TokenId> kTokens{1, 2, 3};

TEST(RankMessage, AStepComesBack) {
  const SampleRow drawn{.temperature = 0.5, .uniform = 0.25};
  calls::ByGroup<StepInput> inputs(3);
  inputs[0] = {{.sequence = SequenceId{6}, .tokens = kTokens, .draws = {&drawn, 1}, .num_drafts = 2}};
  inputs[1] = {{SequenceId{4}, std::span(kTokens).first(2), WantedLogits::kAll, {}, false}};
  const DecoderUse use{.is_bounded = true, .has_rows = false};
  const ReceivedCall message =
      call_from_bytes(to_bytes({calls::Begin{.inputs = inputs, .num_links = 9, .use = use}, 2}));
  EXPECT_EQ(message.call.group, 2);
  EXPECT_TRUE(message.call.is_collective());
  const auto call = received<calls::Begin>(message);
  EXPECT_EQ(call.num_links, 9);
  EXPECT_EQ(call.use, use);
  ASSERT_EQ(call.inputs.size(), 3U);
  ASSERT_EQ(call.inputs[0].size(), 1U);
  EXPECT_EQ(call.inputs[0][0].num_drafts, 2);
  EXPECT_TRUE(std::ranges::equal(call.inputs[0][0].tokens, kTokens));
  ASSERT_EQ(call.inputs[0][0].draws.size(), 1U);
  EXPECT_EQ(call.inputs[0][0].draws[0].uniform, 0.25);
  const StepInput& input = call.inputs[1].front();
  EXPECT_EQ(input.sequence, SequenceId{4});
  EXPECT_TRUE(std::ranges::equal(input.tokens, std::span(kTokens).first(2)));
  EXPECT_EQ(input.wanted, WantedLogits::kAll);
  EXPECT_FALSE(input.wants_draft_logits);
  EXPECT_TRUE(input.draws.empty());
  EXPECT_TRUE(call.inputs[2].empty());
}

TEST(RankMessage, OtherCallsComeBack) {
  const SampleRow drawn{.temperature = 0.5, .uniform = 0.25};
  const ReceivedCall drafts = call_from_bytes(
      to_bytes({calls::Draft{.inputs = {{{SequenceId{5}, 11, drawn}}, {{SequenceId{5}, 12}}}, .depth = 1}}));
  EXPECT_EQ(drafts.call.group, RankCall::kAllGroups);
  EXPECT_EQ(received<calls::Draft>(drafts).inputs[0].front().token, 11);
  EXPECT_EQ(received<calls::Draft>(drafts).inputs[0].front().draw->temperature, 0.5);
  EXPECT_FALSE(received<calls::Draft>(drafts).inputs[1].front().draw);
  EXPECT_EQ(received<calls::Draft>(drafts).depth, 1);

  const std::vector<BlockExperts> experts{{.block = 3, .slots = {1, 0, 1}}, {.block = 4, .slots = {}}};
  EXPECT_EQ(
      received<calls::StageExperts>(call_from_bytes(to_bytes({calls::StageExperts{.experts = experts}})))
          .experts,
      experts);
  const std::vector<SequenceTransfer> transfers{
      {.from_group = 1, .to_group = 2, .sent = SequenceId{8}, .end = 77, .last = true}, {}};
  EXPECT_EQ(received<calls::Transfer>(call_from_bytes(to_bytes({calls::Transfer{.transfers = transfers}})))
                .transfers,
            transfers);
  const ReceivedCall open =
      call_from_bytes(to_bytes({calls::Open{.prompt = kTokens, .decoder_begin = 272}, 1}));
  EXPECT_EQ(received<calls::Open>(open).decoder_begin, 272);
  EXPECT_TRUE(std::ranges::equal(received<calls::Open>(open).prompt, kTokens));
  const ReceivedCall close =
      call_from_bytes(to_bytes({calls::Close{.sequence = SequenceId{7}, .keep = true}, 1}));
  EXPECT_FALSE(close.call.is_collective());
  EXPECT_EQ(received<calls::Close>(close).sequence, SequenceId{7});
  EXPECT_TRUE(received<calls::Close>(close).keep);
  EXPECT_TRUE(std::holds_alternative<calls::End>(call_from_bytes(to_bytes({calls::End{}})).call.what));
}

TEST(RankMessage, RowsComeBack) {
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  const std::vector<TokenId> chosen{7, 8}, drafted{9};
  calls::StepRows rows{.logits = {values.data(), {2, 3}},
                       .chosen = chosen,
                       .drafted = drafted,
                       .confidence = std::span(values).first(1)};
  const ReceivedReply message = reply_from_bytes(to_bytes(RankReply{rows}));
  EXPECT_FALSE(message.reply.failure);
  const auto& reply = message.reply.to<calls::Compute>();
  ASSERT_EQ(reply.logits.extent(0), 2);
  EXPECT_TRUE(std::ranges::equal(reply.logits.row(1), std::span(values).last(3)));
  EXPECT_TRUE(reply.draft_logits.empty());
  EXPECT_TRUE(std::ranges::equal(reply.chosen, chosen));
  EXPECT_TRUE(std::ranges::equal(reply.drafted, drafted));
  EXPECT_TRUE(std::ranges::equal(reply.confidence, rows.confidence));
}

TEST(RankMessage, OtherRepliesComeBack) {
  const auto back = [](RankReply reply) { return reply_from_bytes(to_bytes(reply)).reply; };
  EXPECT_EQ(back({.failure = "no room"}).failure, "no room");
  EXPECT_FALSE(back({calls::Opened{}}).to<calls::Open>().sequence);
  EXPECT_EQ(back({calls::Opened{SequenceId{3}}}).to<calls::Open>().sequence, SequenceId{3});
  const DecoderUse asked{.is_bounded = true, .has_rows = true};
  EXPECT_EQ(back({asked}).to<calls::Prepare>(), asked);
  CacheUse use;
  use.pages = {.total = 4, .free = 1, .cached = 2, .in_use = 1};
  EXPECT_EQ(back({use}).to<calls::UseOfCache>().pages.cached, 2);
  const PrefixLookup lookup{.end = PrefixEnd::kNoTail,
                            .prompt_tokens = 900,
                            .found_tokens = 256,
                            .first_difference = 700,
                            .cached_tokens = {5, 6},
                            .lost_tokens = 256};
  EXPECT_EQ(back({lookup}).to<calls::Lookup>(), lookup);
  const std::vector<std::vector<std::int64_t>> load{{1, 2}, {3, 4}};
  EXPECT_EQ(back({load}).to<calls::ExpertLoad>(), load);
  const calls::Transferred transferred{.num_bytes = 6, .refusals = {"", "pool keys: lost"}};
  EXPECT_EQ(back({transferred}).to<calls::Transfer>().refusals, transferred.refusals);
}

TEST(RankMessage, BytesThatAreNoMessageAreRefused) {
  const std::vector<std::byte> bytes = to_bytes({calls::Prepare{.inputs = {{{SequenceId{4}, kTokens}}}}, 1});
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_THROW(static_cast<void>(call_from_bytes(std::span(bytes).first(size))), Error) << size;
  std::vector<std::byte> of_no_kind = bytes;
  of_no_kind[0] = std::byte{200};
  EXPECT_THROW(static_cast<void>(call_from_bytes(of_no_kind)), Error);
}

}  // namespace
}  // namespace baleen
