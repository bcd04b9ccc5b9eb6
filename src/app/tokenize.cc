#include "app/tokenize.h"

#include <unistd.h>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "app/commands.h"
#include "app/engine_flags.h"
#include "app/options.h"
#include "base/error.h"
#include "base/json.h"
#include "base/piped_text.h"
#include "base/quoted_text.h"
#include "base/utf8.h"

namespace baleen {
namespace {

using Json = nlohmann::json;

Result<Json> encode_request(const Tokenizer& tokenizer, const Json& text) {
  if (!text.is_string()) return failure("\"text\" is {}; a string was expected", text.type_name());
  auto ids = tokenizer.encode(text.get_ref<const std::string&>());
  if (!ids) return failure("{}", ids.error());
  return Json{{"ids", std::move(ids).value()}};
}

Result<Json> decode_request(const Tokenizer& tokenizer, const Json& list) {
  if (!list.is_array()) return failure("\"ids\" is {}; an array of numbers was expected", list.type_name());
  std::vector<TokenId> ids;
  ids.reserve(list.size());
  for (const Json& id : list) {
    if (!id.is_number_unsigned() || id >= tokenizer.vocab_size() || !tokenizer.contains(id.get<TokenId>())) {
      return failure("{} is not the id of a token; the vocabulary has ids 0 to {}",
                     shortened_text(id.dump(-1, ' ', false, Json::error_handler_t::replace), 60),
                     tokenizer.vocab_size() - 1);
    }
    ids.push_back(id.get<TokenId>());
  }
  return Json{{"text", tokenizer.decode(ids)}};
}

Result<Json> answer(const Tokenizer& tokenizer, std::string_view line) {
  if (const auto invalid = find_invalid_utf8(line)) {
    return failure("not valid UTF-8 at byte {} of the line (0x{:02X})", *invalid,
                   static_cast<unsigned char>(line[*invalid]));
  }
  const Result<Json> parsed = parse_json(line);
  if (!parsed) {
    return failure("not valid JSON: {}; expected {{\"text\": \"...\"}} or {{\"ids\": [...]}}",
                   parsed.error());
  }
  const Json& request = parsed.value();
  if (request.is_object() && request.size() == 1) {
    if (request.contains("text")) return encode_request(tokenizer, request["text"]);
    if (request.contains("ids")) return decode_request(tokenizer, request["ids"]);
  }
  return failure("another kind of JSON; expected {{\"text\": \"...\"}} or {{\"ids\": [...]}}");
}

}  // namespace

void tokenize_lines(const Tokenizer& tokenizer, std::istream& in, std::ostream& out, bool interactive) {
  std::string line;
  for (std::size_t number = 1; read_line(in, line, "standard input"); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const Result<Json> result = answer(tokenizer, line);
    if (!result) {
      out.flush();
      fail("standard input, line {}: {}", number, result.error());
    }
    out << result.value().dump() << '\n';
    if (interactive) out.flush();
    if (!out) break;
  }
  out.flush();
  if (!out) fail("standard output: writing failed; is the disk full, or the reader gone?");
}

void add_tokenize_command(Options& command) {
  command.footer(
      "Reads {\"text\": \"...\"} or {\"ids\": [...]} from standard input, one a line, and writes\n"
      "{\"ids\": [...]} or {\"text\": \"...\"}. Special tokens in the text are recognised; none is added.");
  auto model = std::make_shared<std::string>(default_model_folder());
  command.path("--model,-m", *model, "Folder with tokenizer.json, or that file");
  command.action([model] {
    std::ios::sync_with_stdio(false);
    tokenize_lines(Tokenizer::load(*model), std::cin, std::cout, ::isatty(STDIN_FILENO) == 1);
  });
}

}  // namespace baleen
