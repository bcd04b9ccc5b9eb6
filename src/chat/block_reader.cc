#include "chat/block_reader.h"

#include <string>
#include <utility>

#include "chat/block_scanner.h"
#include "chat/invoke_reader.h"
#include "chat/json_call_items.h"
#include "chat/open_block.h"
#include "chat/spellings.h"
#include "chat/tag.h"
#include "chat/white_space.h"

namespace baleen {
namespace {

using Kind = Markup::Kind;

void add_loose_text(OpenBlock& block, const std::string& text, std::span<const DeclaredTool> tools) {
  if (block.is_in_block()) {
    if (says_nothing(text)) return;
    if (add_json_calls(block, text, tools)) return;
    if (trimmed(text).find_first_of("{[") == 0) return block.add_dropped("", without_markup(trimmed(text)));
  }
  if (is_debris(text) && block.has_calls()) {
    if (!is_blank(text)) block.note_repairs();
    return block.add_text(is_blank(text) ? text : "\n");
  }
  // On the line of a tag that closed a value which had not ended: more of that value.
  if (!text.starts_with('\n') && block.is_after_implied_end() && !is_blank(text)) block.note_surplus();
  block.add_text(text);
}

/// A tag closes what is not open. After a value that ended without its own tag, that value may have quoted
/// the tag which ended it.
void note_surplus_closer(OpenBlock& block) {
  block.note_repairs();
  if (block.has_implied_end()) block.note_surplus();
  if (!block.has_calls()) block.add_dropped("", "");
}

/// Reads one invoke, or one stretch between invokes.
void read_between_invokes(OpenBlock& block, std::span<const DeclaredTool> tools) {
  block.read_look_alike_here();
  if (block.at(Kind::kEnd)) return;
  if (names_tool(block.here(), tools)) {
    block.here().kind = Kind::kInvoke;
    block.here().name = block.here().tag_name;
  }
  if (block.here().opens(Kind::kInvoke)) return read_invoke(block, tools);
  const Markup stretch = block.take();
  switch (stretch.kind) {
    case Kind::kText:
      return add_loose_text(block, stretch.raw, tools);
    case Kind::kCalls:
      return block.note_block_tag(stretch.is_closing);
    case Kind::kInvoke:
    case Kind::kParameter:
      if (stretch.is_closing) return note_surplus_closer(block);
      block.note_repairs();
      return block.add_dropped("", "\n" + without_markup(stretch.name.value_or("")) + ": ");
    default:
      block.note_repairs();
  }
}

}  // namespace

ReadBlock read_block(const MarkedText& block, std::span<const DeclaredTool> tools, const CallTags& tags,
                     bool cut) {
  OpenBlock open(scan_block(block, tags), cut);
  while (!open.at(Kind::kEnd)) read_between_invokes(open, tools);
  return open.close();
}

}  // namespace baleen
