/// Whether and how hard to think, from the many ways of asking for it.
#pragma once

#include "protocols/protocol.h"
#include "protocols/request_fields.h"

namespace baleen {

/// What a request says: a switch, a level, both or neither.
struct RequestedThinking {
  PromptProfile profile;  ///< whose efforts are taken
  std::optional<bool> on = {};
  std::string effort = {};  ///< as given; empty when not given
};

/// Reads a field that is one of none, minimal, low, medium, high, xhigh, max, ultra, or, where the profile's
/// efforts are numbers, one of those, as a number or as text; empty when absent.
[[nodiscard]] std::string read_effort(const RequestFields& fields, std::string_view name,
                                      const PromptProfile& profile);

/// A second switch that disagrees with the first is refused; `name` is the field it stands in.
void set_switch(const RequestFields& fields, std::string_view name, bool on, RequestedThinking& thinking);

/// The switches of other servers that several protocols take: `enable_thinking`, and `chat_template_kwargs`
/// with thinking, enable_thinking or reasoning_effort; another argument of a template is refused.
void read_template_switches(const RequestFields& fields, RequestedThinking& thinking);

/// The effort in `name`; refused where it contradicts one that was read before.
void set_effort(const RequestFields& fields, std::string_view name, RequestedThinking& thinking);

/// The mode, and what the requested effort means by the server's prompt profile (chat/prompt_profile.h).
///
///     effort                      alone          switched on              switched off
///     (absent)                    the default    thinking, API's effort   no thinking
///     none                        no thinking    refused                  no thinking
///     one that is not thinking    no thinking    thinking, least effort   no thinking
///     another                     thinking       thinking                 no thinking
void settle_thinking(const RequestFields& fields, std::string_view effort_field,
                     const RequestedThinking& thinking, const ApiContext& context, ApiRequest& request);

}  // namespace baleen
