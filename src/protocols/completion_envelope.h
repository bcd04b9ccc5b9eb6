/// What OpenAI's two completion protocols put around their choices.
#pragma once

#include "protocols/reply_json.h"

namespace baleen {

class CompletionEnvelope {
 public:
  /// `id_prefix` is "chatcmpl-" or "cmpl-"; `object` names the kind of the whole body or of each chunk.
  CompletionEnvelope(const ApiRequest& request, const ReplyIdentity& identity, std::string_view id_prefix,
                     std::string_view object);

  /// The event of one choice's news.
  [[nodiscard]] std::string chunk(ReplyJson choice) const;
  /// An extension for clients that ask for it: a chunk without choices whose `progress` says how much of the
  /// prompt is computed.
  [[nodiscard]] std::string progress(std::int64_t done, std::int64_t total) const;
  /// The end of a stream: usage if it is wanted, then [DONE].
  [[nodiscard]] std::string last_events(const Usage& usage) const;
  [[nodiscard]] std::string body(ReplyJson choices, const Usage& usage) const;

  [[nodiscard]] bool streams() const { return streams_; }
  /// A stream's last event, or the body.
  [[nodiscard]] std::string failed(const Protocol& protocol, const ApiError& error) const;

 private:
  [[nodiscard]] ReplyJson with_choices(ReplyJson choices) const;

  bool streams_, include_usage_;
  ReplyIdentity identity_;
  std::string id_, object_;
};

}  // namespace baleen
