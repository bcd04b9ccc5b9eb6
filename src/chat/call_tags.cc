#include "chat/call_tags.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "chat/format.h"

namespace baleen {
namespace {

std::string opening(std::string_view name) { return fmt::format("<{}{}", chat_format::kDsml, name); }
std::string closing(std::string_view name) { return fmt::format("</{}{}", chat_format::kDsml, name); }

/// `text`, which is in V4's tags, in tags of these names.
std::string in_tags(std::string_view text, std::string_view calls, std::string_view invoke,
                    std::string_view parameter) {
  const std::pair<std::string_view, std::string_view> names[] = {
      {"tool_calls", calls}, {"invoke", invoke}, {"parameter", parameter}};
  std::string result;
  for (std::size_t at = text.find(chat_format::kDsml); at != std::string_view::npos;
       at = text.find(chat_format::kDsml)) {
    at += chat_format::kDsml.size();
    result += text.substr(0, at);
    text.remove_prefix(at);
    const auto* const found =
        std::ranges::find_if(names, [text](const auto& name) { return text.starts_with(name.first); });
    result += found->second;
    text.remove_prefix(found->first.size());
  }
  return result += text;
}

}  // namespace

CallTags::CallTags(std::string_view calls_name, std::string_view invoke_name, std::string_view parameter_name)
    : calls(calls_name),
      invoke(invoke_name),
      parameter(parameter_name),
      calls_start("\n\n" + opening(calls)),
      calls_end(closing(calls) + ">"),
      invoke_start(opening(invoke)),
      invoke_end(closing(invoke)),
      parameter_start(opening(parameter)),
      parameter_end(closing(parameter).substr(1)),
      calls_opening(calls_start + ">\n"),
      invoke_opening(invoke_start + " name=\""),
      invoke_closing(invoke_end + ">\n"),
      parameter_opening(parameter_start + " name=\""),
      parameter_closing(closing(parameter) + ">\n"),
      tools_head(in_tags(chat_format::kToolsHead, calls, invoke, parameter)) {}

std::span<const CallTags> all_call_tags() {
  static const std::array<CallTags, 2> tags = {CallTags("tool_calls", "invoke", "parameter"),
                                               CallTags(" calls", " invoke", " parameter")};
  return tags;
}

const CallTags& joined_call_tags() { return all_call_tags()[0]; }
const CallTags& spaced_call_tags() { return all_call_tags()[1]; }

}  // namespace baleen
