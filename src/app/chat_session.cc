#include "app/chat_session.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/file.h"
#include "base/json.h"
#include "chat/message_json.h"
#include "chat/render.h"

namespace baleen {
namespace {

using Json = ChatSession::Json;

constexpr std::size_t kLargestFileBytes = std::size_t{256} << 20;
// Deeper than any tool's schema.
constexpr int kDeepestNesting = 200;

constexpr std::array<std::string_view, 6> kRoles{"system",    "developer", "user",
                                                 "assistant", "tool",      "latest_reminder"};

std::optional<std::string> problem_of(const Json& message) {
  if (!message.is_object()) return fmt::format("is {}; expected an object", message.type_name());
  const auto role = message.find("role");
  if (role == message.end() || !role->is_string()) return R"(has no "role", or one that is not a string)";
  const auto& name = role->get_ref<const std::string&>();
  if (std::find(kRoles.begin(), kRoles.end(), name) == kRoles.end()) {
    return fmt::format(R"(has the role "{}"; expected one of {})", name, fmt::join(kRoles, ", "));
  }
  const auto content = message.find("content");
  const bool has_content = content != message.end() && !content->is_null();
  if (has_content && !content->is_string()) {
    return fmt::format(R"(has a "content" that is {}; expected a string)", content->type_name());
  }
  if (!has_content && name != "assistant") return fmt::format(R"(of role "{}" has no "content")", name);
  const auto reasoning = message.find("reasoning_content");
  if (reasoning != message.end() && !reasoning->is_string() && !reasoning->is_null()) {
    return fmt::format(R"(has a "reasoning_content" that is {}; expected a string)", reasoning->type_name());
  }
  return std::nullopt;
}

Result<Json> parse(const std::filesystem::path& path) {
  const std::string text = read_text_file(path, kLargestFileBytes);
  Result<Json> file = parse_ordered_json(text, {.max_depth = kDeepestNesting});
  if (!file) return failure("{}: not JSON: {}", path.string(), file.error());
  return file;
}

}  // namespace

ChatSession::ChatSession(std::string system, const PromptProfile& profile)
    : system_(std::move(system)), profile_(profile) {
  start_anew();
}

void ChatSession::start_anew() {
  messages_ = Json::array();
  if (!system_.empty()) messages_.push_back({{"role", "system"}, {"content", system_}});
}

void ChatSession::add_user(std::string content) {
  messages_.push_back({{"role", "user"}, {"content", std::move(content)}});
}

void ChatSession::add_reply(Json message) {
  BALEEN_CHECK(message.is_object() && message.value("role", "") == "assistant");
  messages_.push_back(std::move(message));
}

void ChatSession::drop_unanswered() {
  if (!messages_.empty() && messages_.back().value("role", "") == "user")
    messages_.erase(messages_.size() - 1);
}

Result<std::size_t> ChatSession::save(const std::filesystem::path& path) const {
  try {
    AtomicFileWriter file(path);
    // A byte that is not UTF-8 is replaced: losing it is better than losing the conversation.
    file.write(Json{{"messages", messages_}}.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
    file.commit();
  } catch (const Error& error) {
    return Failure{error.what()};
  }
  return messages_.size();
}

Result<std::vector<Message>> ChatSession::chat_messages(const Json& messages) const {
  const auto json = parse_python_json(messages.dump(-1, ' ', false, Json::error_handler_t::replace));
  if (!json) return Failure{json.error()};
  return messages_from_json(json.value(), "messages", prompt_rules(profile_));
}

Result<std::size_t> ChatSession::check_usable(const Json& messages) const {
  auto all = chat_messages(messages);
  if (!all) return Failure{all.error()};
  all.value().push_back({.role = Role::kUser, .content = "?"});
  const auto prompt = render_prompt(all.value(), {.profile = profile_});
  if (!prompt) return Failure{prompt.error()};
  return all.value().size();
}

Result<std::size_t> ChatSession::load(const std::filesystem::path& path) {
  try {
    auto file = parse(path);
    if (!file.ok()) return Failure{file.error()};
    if (!file.value().is_object() || !file.value().contains("messages") ||
        !file.value()["messages"].is_array()) {
      return failure(R"({}: expected an object with an array "messages", as /save writes it)", path.string());
    }
    Json messages = std::move(file.value()["messages"]);
    for (std::size_t i = 0; i < messages.size(); ++i) {
      if (const auto problem = problem_of(messages[i])) {
        return failure("{}: message {} of {} {}", path.string(), i + 1, messages.size(), *problem);
      }
    }
    if (const auto usable = check_usable(messages); !usable) {
      return failure("{}: no reply can follow these messages: {}", path.string(), usable.error());
    }
    messages_ = std::move(messages);
  } catch (const Error& error) {
    return Failure{error.what()};
  }
  return messages_.size();
}

}  // namespace baleen
