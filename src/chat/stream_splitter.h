/// Tells reasoning, content and tool calls apart while the completion is still arriving.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "chat/call_tags.h"
#include "chat/message.h"

namespace baleen {

/// Fed the pieces of one completion, however they are cut, it gives out every byte as soon as its kind is
/// certain: text that may be the start of `</think>`, of the end token or of a tool-call block waits for what
/// follows, and so do the first bytes of a character. Never fails; for a completion that `parse_completion`
/// accepts, the reasoning and content given out are those of the parsed message.
///
/// Unlike the strict parser it takes everything up to `</think>` as reasoning, even a tool-call tag, and
/// needs no end token. Holds back less than 30 bytes.
class StreamSplitter {
 public:
  enum class Kind {
    kReasoning,
    kContent,
    /// All text from the blank line before a block of tool calls to the end of the completion, end token
    /// included. Collected and parsed as kChat (or after what preceded it) it yields the calls.
    kToolCalls,
  };
  struct Delta {
    Kind kind;
    std::string text;  ///< never empty
    bool operator==(const Delta&) const = default;
  };

  /// The completion begins right after `<think>` (kThinking) or `</think>` (kChat).
  explicit StreamSplitter(ThinkingMode mode, const CallTags& tags = joined_call_tags())
      : kind_(mode == ThinkingMode::kThinking ? Kind::kReasoning : Kind::kContent),
        call_start_(tags.calls_start) {}

  /// What has become certain with this piece; often nothing or one delta.
  std::vector<Delta> feed(std::string_view piece);

  /// The completion is over: gives out what waited, as it is.
  std::vector<Delta> finish();

  /// What the next byte would be.
  [[nodiscard]] Kind kind() const { return kind_; }

  /// The end token was seen outside a tool-call block; later text is ignored.
  [[nodiscard]] bool ended() const { return ended_; }

 private:
  struct Stop {
    std::size_t at = std::string_view::npos;
    std::string_view text;
  };

  [[nodiscard]] std::vector<std::string_view> stops() const;
  [[nodiscard]] Stop first_stop(std::string_view text) const;
  [[nodiscard]] std::size_t uncertain_bytes(std::string_view text) const;

  Kind kind_;
  std::string_view call_start_;  ///< what begins a block of tool calls; static
  bool ended_ = false;
  std::string pending_;
};

}  // namespace baleen
