#include "chat/special_strings.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/utf8.h"
#include "chat/format.h"

namespace baleen {

std::span<const std::string_view> special_strings() {
  using namespace chat_format;
  static constexpr std::string_view kStrings[] = {kThink,
                                                  kEndThink,
                                                  kDsml,
                                                  kEos,
                                                  kBos,
                                                  kUser,
                                                  kAssistant,
                                                  kReminder,
                                                  kSystem,
                                                  kTasks[0].token,
                                                  kTasks[1].token,
                                                  kTasks[2].token,
                                                  kTasks[3].token,
                                                  kTasks[4].token,
                                                  kTasks[5].token};
  return kStrings;
}

MarkedText with_marked_specials(std::string_view bytes) {
  std::string text;
  if (append_as_utf8(bytes, text) < bytes.size()) text += kReplacementCharacter;
  MarkedText marked;
  const std::string_view rest = text;
  std::size_t done = 0;
  for (std::size_t at = 0; at < rest.size();) {
    const auto starts = [&](std::string_view special) { return rest.substr(at).starts_with(special); };
    const bool may_begin = rest[at] == '<' || rest[at] == '\xEF';
    const auto found = may_begin ? std::ranges::find_if(special_strings(), starts) : special_strings().end();
    if (found == special_strings().end()) {
      ++at;
      continue;
    }
    marked.add_text(rest.substr(done, at - done));
    marked.add_control(*found);
    done = at += found->size();
  }
  marked.add_text(rest.substr(done));
  return marked;
}

std::string without_specials(std::string_view text) {
  std::string result;
  for_each_stretch(
      with_marked_specials(text), [&](std::string_view stretch) { result += stretch; },
      [&](std::string_view) { result += ' '; });  // what stood around it must not join
  return result;
}

}  // namespace baleen
