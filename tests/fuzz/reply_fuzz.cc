// Any bytes as a reply: whatever they are, arguments are JSON objects, no special string comes out as text,
// and it does not matter how the reply was cut. The first byte picks the thinking mode, how the reply ended,
// what enforced it, and whether the special strings are tokens or text that looks like them: text calls
// nothing.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"
#include "chat/format.h"
#include "chat/json_repair.h"
#include "chat/parse.h"
#include "chat/reply_reader.h"
#include "chat/special_strings.h"

namespace baleen {
namespace {

constexpr std::string_view kBegunBlock = "\n\n<";

struct Read {
  std::string reasoning, content, raw;
  std::vector<std::string> calls;  ///< name and arguments by turns
  std::size_t num_repairs = 0, num_dropped = 0;
  bool operator==(const Read&) const = default;
};

void add(Read& read, const std::vector<ReplyPart>& parts) {
  for (const ReplyPart& part : parts) {
    BALEEN_CHECK(!find_invalid_utf8(part.text));
    if (part.kind == ReplyPart::Kind::kReasoning) read.reasoning += part.text;
    if (part.kind == ReplyPart::Kind::kContent) read.content += part.text;
    if (part.kind == ReplyPart::Kind::kCallBegin) read.calls.insert(read.calls.end(), {part.text, ""});
    if (part.kind == ReplyPart::Kind::kCallArguments) read.calls.back() += part.text;
  }
}

const std::vector<DeclaredTool>& tools() {
  static const std::vector<DeclaredTool> kTools = {
      {"f", {}},
      {"g",
       parse_python_json(
           R"({"properties": {"s": {"type": "string"}, "i": {"type": "integer"}, "a": {"type": "array"}}})")
           .value()}};
  return kTools;
}

struct Shape {
  ThinkingMode mode;
  bool cut;
  CallEnforcement enforcement;
};

/// Character by character, or whole.
Read read(const MarkedText& reply, const Shape& shape, bool is_whole) {
  Read result;
  ReplyReader reader(shape.mode, tools(), shape.enforcement);
  if (is_whole) {
    add(result, reader.feed(reply));
  } else {
    for_each_stretch(
        reply,
        [&](std::string_view text) {
          while (!text.empty()) {
            const std::size_t size = next_utf8(text).size;
            add(result, reader.feed({.text = std::string(text.substr(0, size))}));
            text.remove_prefix(size);
          }
        },
        [&](std::string_view token) {
          MarkedText piece;
          piece.add_control(token);
          add(result, reader.feed(piece));
        });
  }
  add(result, reader.finish(shape.cut));
  result.raw = reader.raw_calls();
  result.num_repairs = reader.num_repairs();
  result.num_dropped = reader.num_dropped_calls();
  return result;
}

void check_calls(const Read& read) {
  for (std::size_t i = 1; i < read.calls.size(); i += 2) {
    const std::optional<PythonJson> arguments = read_strict_json(read.calls[i]);
    BALEEN_CHECK(arguments && arguments->as_object() != nullptr);
  }
}

void check_no_special(const Read& read) {
  for (const std::string_view special : special_strings()) {
    BALEEN_CHECK(read.content.find(special) == std::string::npos);
    BALEEN_CHECK(read.reasoning.find(special) == std::string::npos);
  }
}

}  // namespace
}  // namespace baleen

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace baleen;
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  const unsigned picks = data[0];
  const bool is_enforced = (picks >> 2) % 4 == 3, is_text = (picks >> 4) % 4 == 3;
  const Shape shape{picks % 2 == 0 ? ThinkingMode::kChat : ThinkingMode::kThinking, (picks >> 1) % 2 == 1,
                    is_enforced ? CallEnforcement::kFromToken : CallEnforcement::kNone};
  MarkedText reply = with_marked_specials(bytes);
  if (is_text) reply.controls.clear();
  const Read whole = read(reply, shape, true);
  // An enforced block is JSON because its grammar is; other bytes need not be.
  if (!is_enforced) check_calls(whole);
  if (is_text) {
    BALEEN_CHECK(whole.calls.empty() && whole.num_dropped == 0);
    const bool is_content = shape.mode == ThinkingMode::kChat;
    // Where content is cut, a block's blank line and `<` may be its end.
    std::string_view text = reply.text;
    if (is_content && shape.cut && text.ends_with(kBegunBlock)) text.remove_suffix(kBegunBlock.size());
    BALEEN_CHECK((is_content ? whole.content : whole.reasoning) == text);
  } else {
    check_no_special(whole);
  }
  BALEEN_CHECK(read(reply, shape, false) == whole);
  return 0;
}
