// Any text as a schema: refused with a sentence, or a grammar from whose masks a reply can be written that is
// JSON. The first byte picks a schema of a reply or of a tool; the rest is the schema.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "grammar/compiled_grammar.h"
#include "grammar/configuration.h"

namespace baleen {
namespace {

/// Writes a text byte by byte, the first byte possible or, now and then, the last; it may not come to an end
/// in time, but it must never get stuck.
std::string some_text(const CompiledGrammar& grammar, std::uint32_t seed) {
  static constexpr std::size_t kMaxBytes = 400;
  Stepper stepper(grammar);
  Configuration at;
  stepper.begin(at);
  std::string text;
  while (text.size() < kMaxBytes && !at.may_end) {
    std::vector<char> possible;
    for (int byte = 0; byte < 256; ++byte) {
      Configuration next;
      stepper.step(at, static_cast<std::uint8_t>(byte), next);
      if (!next.is_dead()) possible.push_back(static_cast<char>(byte));
    }
    BALEEN_CHECK(!possible.empty());
    seed = seed * 1664525U + 1013904223U;
    const char chosen =
        possible[(seed >> 16) % 4 == 0 ? possible.size() - 1 : (seed >> 20) % possible.size()];
    BALEEN_CHECK(stepper.advance(at, std::string_view(&chosen, 1)));
    text += chosen;
  }
  return at.may_end ? text : std::string();
}

void check_schema(std::string_view text, bool is_tool) {
  const Result<PythonJson> schema = parse_python_json(text);
  if (!schema) return;
  const std::vector<ToolGrammar> tools = {{"f", schema.value()}};
  const Result<Grammar> strict =
      is_tool ? tool_calls_grammar(tools, true) : json_schema_grammar(schema.value());
  BALEEN_CHECK(strict.ok() || !strict.error().empty());
  // With something left out there is always a grammar, and what is left out is named.
  std::vector<Unheld> unheld;
  const Result<Grammar> grammar =
      is_tool ? tool_calls_grammar(tools, true, &unheld) : json_schema_grammar(schema.value(), &unheld);
  BALEEN_CHECK(grammar.ok() && (strict.ok() || !unheld.empty()));
  const std::string reply = some_text(*grammar.value(), static_cast<std::uint32_t>(text.size()));
  if (!reply.empty() && !is_tool) BALEEN_CHECK(parse_python_json(reply).ok());
}

}  // namespace
}  // namespace baleen

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  baleen::check_schema(std::string_view(reinterpret_cast<const char*>(data + 1), size - 1), data[0] % 2 == 0);
  return 0;
}
