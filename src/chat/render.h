/// Messages to the prompt text that the model was trained on. This encoder is the only definition of the
/// format: the tokenizer files carry no chat template. The prompt already holds BOS; tokenise it without
/// adding one.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/marked_text.h"
#include "chat/message.h"
#include "chat/prompt_profile.h"

namespace baleen {

struct RenderOptions {
  PromptProfile profile = PromptProfile::kPreview;
  ThinkingMode thinking_mode = ThinkingMode::kThinking;
  /// One of the profile's: a name, or a number ("37"). Empty: its encoder's default.
  std::string reasoning_effort = {};
  /// Leave out the reasoning of turns before the last user message; ignored (nothing is left out) when any
  /// message declares tools.
  bool drop_thinking = true;
  bool add_bos = true;  ///< only without `context`
  /// Messages that were rendered before: they decide like the others and are not rendered again. When
  /// dropping shortens them, the remainder starts after the shortened form; render the whole conversation
  /// where you can.
  std::span<const Message> context = {};
};

/// A conversation as a model is trained on it.
struct RenderedConversation {
  MarkedText text;
  /// What the assistant wrote, in order and disjoint: from the first byte after the transition to the end
  /// token, included. So in thinking mode `<think>` is prompt and `</think>` is reply; in chat mode both are
  /// prompt.
  std::vector<TextRange> replies;
  /// Where the instructions before the first turn of the conversation end, and within them, where their text
  /// ends and declared tools begin: other conversations have the same up to there. Bytes, ascending.
  std::vector<std::size_t> section_ends;
};

/// `render_marked_prompt`, and where the assistant's replies are in it.
Result<RenderedConversation> render_conversation(std::span<const Message> messages,
                                                 const RenderOptions& options);

/// The prompt with the format's own control tokens marked: what messages say is text, whatever it spells.
/// Otherwise as `render_prompt`, whose text it has.
Result<MarkedText> render_marked_prompt(std::span<const Message> messages, const RenderOptions& options);

/// The prompt, ending where the model goes on: after `<think>` or `</think>`, after a task token, or after
/// EOS when the last message is an assistant's. Fails on a message that has no rendering: an unknown role, a
/// developer without content, tool-call arguments that are JSON but no object; and on an effort that the
/// profile has not, in either mode.
Result<std::string> render_prompt(std::span<const Message> messages, const RenderOptions& options);

}  // namespace baleen
