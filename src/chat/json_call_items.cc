#include "chat/json_call_items.h"

#include <string_view>
#include <utility>
#include <vector>

#include "chat/json_calls.h"
#include "chat/meant_tool.h"
#include "chat/repaired_arguments.h"
#include "chat/tag.h"

namespace baleen {
namespace {

/// As many as may be made.
std::vector<BlockItem> items_of(const std::vector<JsonCall>& calls, std::span<const DeclaredTool> tools) {
  std::vector<BlockItem> items;
  for (const JsonCall& call : calls) {
    const DeclaredTool* tool = meant_tool(call.name, tools);
    if (tool == nullptr) continue;
    RepairedArguments arguments(tool->parameters);
    arguments.add_members(call.arguments);
    if (!arguments.may_be_called(true)) continue;
    items.push_back({.kind = BlockItem::Kind::kCall,
                     .call = {"", tool->name, arguments.json()},
                     .text = without_markup(call.name + ": " + dump_python_json(call.arguments))});
  }
  return items;
}

}  // namespace

bool add_json_calls(OpenBlock& block, const std::string& text, std::span<const DeclaredTool> tools) {
  const std::string_view body = without_look_alike_closers(text, "");
  const std::vector<std::vector<JsonCall>> meanings = json_calls(body);
  if (meanings.empty()) return false;
  std::vector<std::vector<BlockItem>> possible;
  for (const std::vector<JsonCall>& calls : meanings) {
    std::vector<BlockItem> items = items_of(calls, tools);
    if (items.size() == calls.size()) possible.push_back(std::move(items));
  }
  block.note_repairs(2);
  // What is missing was to come.
  const bool is_cut = block.is_cut() && (block.at(Markup::Kind::kEnd) || block.at(Markup::Kind::kCut));
  if (possible.size() == 1 && !is_cut) {
    block.note_call();
    for (BlockItem& item : possible.front()) block.add_call(std::move(item));
    return true;
  }
  for (const JsonCall& call : meanings.front()) block.add_dropped(call.name, without_markup(body));
  return true;
}

}  // namespace baleen
