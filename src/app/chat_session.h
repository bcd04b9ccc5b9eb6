/// The conversation of `baleen chat`: its messages, and their file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "chat/message.h"
#include "chat/prompt_profile.h"

namespace baleen {

/// Messages in the form of the OpenAI API, oldest first, keys in the order given: `role`, `content`, and for
/// replies `reasoning_content`. Ready for the chat format's rendering.
class ChatSession {
 public:
  using Json = nlohmann::ordered_json;

  /// Begins with a system message unless `system` is empty.
  explicit ChatSession(std::string system = "", const PromptProfile& profile = PromptProfile::kPreview);

  void add_user(std::string content);
  /// `message` is an object with the role of assistant, as the parser of completions yields it.
  void add_reply(Json message);
  /// Takes back the last message, if it is the user's: the reply to it failed.
  void drop_unanswered();

  /// Back to how it began; a conversation that was loaded is forgotten with its system message.
  void start_anew();

  /// An array of objects.
  [[nodiscard]] const Json& messages() const { return messages_; }

  /// The same for the chat format; a failure where a message cannot be one of it.
  [[nodiscard]] Result<std::vector<Message>> chat_messages() const { return chat_messages(messages_); }

  /// Writes {"messages": [...]}; returns their number. A failure leaves an existing file as it was.
  [[nodiscard]] Result<std::size_t> save(const std::filesystem::path& path) const;

  /// Reads what `save` wrote, or a person did; returns the number of messages. Every message is checked
  /// first, and that a reply can follow them: a failure names the file, and leaves the conversation as it
  /// was.
  [[nodiscard]] Result<std::size_t> load(const std::filesystem::path& path);

 private:
  [[nodiscard]] Result<std::vector<Message>> chat_messages(const Json& messages) const;
  [[nodiscard]] Result<std::size_t> check_usable(const Json& messages) const;

  std::string system_;
  PromptProfile profile_;  ///< whose rules messages are read by
  Json messages_;
};

}  // namespace baleen
