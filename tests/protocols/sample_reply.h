// One reply in parts, and its encoding in a protocol: what the encoders' tests share.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "protocols/protocol.h"

namespace baleen {

using Parts = std::vector<ReplyPart>;

/// What one call of ReplyEncoder::parts gets.
struct Piece {
  Parts parts;
  std::vector<TokenLogprobs> logprobs;
};

inline ReplyPart reasoning(std::string text) { return {ReplyPart::Kind::kReasoning, std::move(text)}; }
inline ReplyPart content(std::string text) { return {ReplyPart::Kind::kContent, std::move(text)}; }
inline ReplyPart call_begin(std::size_t idx, std::string name) {
  return {ReplyPart::Kind::kCallBegin, std::move(name), idx};
}
inline ReplyPart call_arguments(std::size_t idx, std::string text) {
  return {ReplyPart::Kind::kCallArguments, std::move(text), idx};
}
inline ReplyPart call_end(std::size_t idx) { return {ReplyPart::Kind::kCallEnd, "", idx}; }

inline ReplyIdentity sample_identity() {
  return {.id = "8f3a", .created_unix_seconds = 1700000000, .model = "m"};
}

inline Usage sample_usage() {
  return {.prompt_tokens = 10,
          .cached_tokens = 4,
          .reply_tokens = 7,
          .reasoning_tokens = 2,
          .drafted_tokens = 5,
          .accepted_tokens = 3};
}

/// Everything that one choice's reply sends.
inline std::string encoded(const ApiRequest& request, const std::vector<Piece>& pieces, ReplyEnd reason,
                           const std::string& stop_string = "") {
  const auto encoder = make_encoder(request, sample_identity(), {.prompt_tokens = 10});
  std::string bytes = encoder->begin();
  for (const Piece& piece : pieces) bytes += encoder->parts(0, piece.parts, piece.logprobs);
  bytes += encoder->choice_finished(0, reason, stop_string);
  return bytes + encoder->finish(sample_usage());
}

}  // namespace baleen
