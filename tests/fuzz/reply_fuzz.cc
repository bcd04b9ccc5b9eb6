// Any bytes as a reply: whatever they are, arguments are JSON objects, no special string comes out as text, and it does
// not matter how the reply was cut. The first byte picks the thinking mode, how the reply ended and where it is cut.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"
#include "chat/json_repair.h"
#include "chat/markup.h"
#include "chat/parse.h"
#include "chat/reply_reader.h"

namespace baleen {
namespace {

struct Read {
  std::string reasoning, content, raw;
  std::vector<std::string> calls;  ///< name and arguments by turns
  std::size_t num_repairs = 0;
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

Read read(std::string_view text, ThinkingMode mode, bool cut, std::size_t first_bytes) {
  Read result;
  ReplyReader reader(mode, tools());
  const std::string_view first = text.substr(0, first_bytes);
  add(result, reader.feed(first));
  for (const char& byte : text.substr(first.size())) add(result, reader.feed(std::string_view(&byte, 1)));
  add(result, reader.finish(cut));
  result.raw = reader.raw_calls();
  result.num_repairs = reader.num_repairs();
  return result;
}

void check(const Read& read) {
  for (const std::string_view special : special_strings()) {
    if (special == "<|DSML|") continue;  // without a tag's name it is text
    BALEEN_CHECK(read.content.find(special) == std::string::npos);
    BALEEN_CHECK(read.reasoning.find(special) == std::string::npos);
  }
  for (std::size_t i = 1; i < read.calls.size(); i += 2) {
    const std::optional<PythonJson> arguments = read_strict_json(read.calls[i]);
    BALEEN_CHECK(arguments && arguments->as_object() != nullptr);
  }
}

}  // namespace
}  // namespace baleen

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace baleen;
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  const auto mode = data[0] % 2 == 0 ? ThinkingMode::kChat : ThinkingMode::kThinking;
  const bool cut = data[0] / 2 % 2 == 1;
  const Read whole = read(text, mode, cut, text.size());
  check(whole);
  BALEEN_CHECK(read(text, mode, cut, data[0] / 4) == whole);
  return 0;
}
