/// Messages from and to the JSON of the OpenAI chat interface.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "chat/message.h"
#include "chat/prompt_profile.h"

namespace baleen {

/// Reads an array of message objects. Types are checked for every field that `Message` has, other fields
/// (`mask`, `name`, ...) are passed over. Null counts as absent, except as the content of a user, tool or
/// latest_reminder message: the official encoder would fail there or print "None". Only a tool's content may
/// be a list of parts; by rules that know images any content may, and images are refused. By rules that have
/// namespaces names come qualified, and where any arguments are taken they may be an object. An error names
/// the place: `messages[3].tool_calls[0].function.name: expected a string, found null`; `where` is its first
/// word.
Result<std::vector<Message>> messages_from_json(
    const PythonJson& messages, std::string_view where = "messages",
    const PromptRules& rules = prompt_rules(PromptProfile::kPreview));

/// Reads back to an equal message. An assistant's content, reasoning_content and tool_calls are always there,
/// as the official parser returns them; otherwise empty fields are left out.
[[nodiscard]] PythonJson message_to_json(const Message& message);

/// A list of content parts as one text: text parts joined by a blank line, a part of another type X as
/// "[Unsupported X]"; with `refuses_images` a part of an image is an error.
Result<std::string> flatten_content_parts(const PythonJson& parts, std::string_view where = "content",
                                          bool refuses_images = false);

/// Whether a part of that type is an image: "image", "image_url", "input_image" and the like.
[[nodiscard]] bool is_image_type(std::string_view type);
/// Behind the place of an image: why there is no reply to it.
inline constexpr std::string_view kNoImages =
    "an image, and the model's vision tower is not loaded: only its text model is computed here; leave the "
    "image out, or say in words what it shows";

/// "chat" or "thinking".
Result<ThinkingMode> thinking_mode_from_json(const PythonJson& value);

/// A string, a whole number as its digits, or null for the empty one: an effort of a profile, or the
/// encoder's default.
Result<std::string> reasoning_effort_from_json(const PythonJson& value);

}  // namespace baleen
