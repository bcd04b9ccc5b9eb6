/// Calls and replies as bytes, between processes of one program on machines of one byte order.
#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <vector>

#include "rank_engine/rank_call.h"

namespace baleen {

/// A call that came as bytes, with the arrays that it points to.
struct ReceivedCall {
  RankCall call;
  std::deque<std::vector<TokenId>> tokens;
  std::deque<std::vector<SampleRow>> draws;
};

/// A reply likewise.
struct ReceivedReply {
  RankReply reply;
  std::vector<float> logits, mtp_logits;
  std::vector<TokenId> chosen, drafted;
};

[[nodiscard]] std::vector<std::byte> to_bytes(const RankCall& call);
[[nodiscard]] std::vector<std::byte> to_bytes(const RankReply& reply);
/// Throw `Error` for bytes that are no such message.
[[nodiscard]] ReceivedCall call_from_bytes(std::span<const std::byte> bytes);
[[nodiscard]] ReceivedReply reply_from_bytes(std::span<const std::byte> bytes);

}  // namespace baleen
