// The three ways in which outside text enters the chat format: JSON requests, completions, streams. The first
// byte picks one (and, for completions, the thinking mode and where the stream is cut).
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "chat/json_lines.h"
#include "chat/parse.h"
#include "chat/python_json.h"
#include "chat/stream_splitter.h"

namespace baleen {
namespace {

void check_request(std::string_view line) {
  for (const PromptRules& rules : all_prompt_rules()) {  // the reply is JSON whatever came
    BALEEN_CHECK(parse_python_json(encode_chat_line(line, {rules.format})).ok());
  }
  BALEEN_CHECK(parse_python_json(parse_chat_line(line)).ok());
  const Result<PythonJson> value = parse_python_json(line);
  if (!value) return;
  const std::string written = dump_python_json(value.value());
  BALEEN_CHECK(dump_python_json(parse_python_json(written).value()) == written);
}

void check_completion(std::string_view text, ThinkingMode mode, std::size_t cut) {
  std::string reasoning, content;
  StreamSplitter splitter(mode);
  const auto collect = [&](const std::vector<StreamSplitter::Delta>& deltas) {
    for (const auto& [kind, delta] : deltas) {
      if (kind == StreamSplitter::Kind::kReasoning) reasoning += delta;
      if (kind == StreamSplitter::Kind::kContent) content += delta;
    }
  };
  collect(splitter.feed(text.substr(0, cut)));
  collect(splitter.feed(text.substr(std::min(cut, text.size()))));
  collect(splitter.finish());
  const Result<Message> parsed = parse_completion(text, mode);
  if (!parsed) return;
  BALEEN_CHECK(parsed.value().reasoning_content == reasoning);
  BALEEN_CHECK(parsed.value().content == content);
}

}  // namespace
}  // namespace baleen

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  if (data[0] == '{') {
    baleen::check_request(std::string_view(reinterpret_cast<const char*>(data), size));
  } else {
    const auto mode = data[0] % 2 == 0 ? baleen::ThinkingMode::kChat : baleen::ThinkingMode::kThinking;
    baleen::check_completion(text, mode, data[0] / 2);
  }
  return 0;
}
