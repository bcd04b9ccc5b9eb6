/// Groups of tools ("type": "namespace"), in which newer clients of the responses API send the tools of every
/// server that they are connected to. The chat format knows a flat list, so a tool of a group is declared
/// under both names together, and a call of it goes back in the group's form: its own name, and the group's
/// as `namespace`. By rules that have namespaces a group is one.
#pragma once

#include <string>
#include <string_view>

#include "protocols/request_fields.h"
#include "protocols/requested_tools.h"

namespace baleen {

/// "mcp__files" and "read" to "mcp__files__read": as clients write it where they must, two underscores
/// between, however many the names have there themselves. By rules that have namespaces to
/// "mcp__files::read".
[[nodiscard]] std::string grouped_name(std::string_view group, std::string_view name,
                                       const PromptProfile& profile);

/// The name of a call, or of a choice of a tool: that of the object, with that of its `namespace` where it
/// has one. Refuses what is no name.
[[nodiscard]] std::string required_call_name(const RequestFields& call, const PromptProfile& profile);

/// A name of any text: what may not stand in one becomes an underscore.
[[nodiscard]] std::string plain_name(std::string text);

/// As `required_call_name`, of a call that a client kept from elsewhere: a plain name of what it has, empty
/// where it has none.
[[nodiscard]] std::string kept_call_name(const RequestFields& call, const PromptProfile& profile);

/// Adds the functions of a group, and notes in `request.grouped_tools` how to name them in replies. The
/// group's description stands before that of its first function, a namespace's before each. What cannot be
/// taken (tools of other kinds, a name that is taken or too long) is noted in `request.ignored`, and so is
/// the group.
void add_tool_group(const RequestFields& group, RequestedTools& tools, ApiRequest& request);

/// The tool of a group that is declared under this name; nullptr for one without a group.
[[nodiscard]] const GroupedTool* find_grouped(const std::vector<GroupedTool>& tools,
                                              std::string_view declared_name);

}  // namespace baleen
