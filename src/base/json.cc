#include "base/json.h"

#include <fmt/format.h>

#include <algorithm>

#include <nlohmann/json.hpp>
#include <string>

#include "base/number.h"
#include "base/quoted_text.h"

namespace baleen {
namespace {

struct JsonShape {
  std::optional<std::size_t> too_deep;  ///< where it nests deeper than allowed, if it does
  std::size_t num_values = 1;           ///< commas, objects and arrays, one more than there are
};

/// Brackets and commas inside strings do not count; those inside comments do, which refuses no sensible file.
/// A text that is not JSON is measured up to its end all the same, unless it nests too deep.
JsonShape shape_of(std::string_view text, int max_depth) {
  JsonShape shape;
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      ++shape.num_values;
      if (++depth > max_depth) {
        shape.too_deep = i;
        return shape;
      }
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',') {
      ++shape.num_values;
    }
  }
  return shape;
}

std::optional<Failure> passed_limit(std::string_view text, const JsonLimits& limits, bool makes_tree) {
  if (text.size() > limits.max_bytes) {
    return failure("{} bytes of JSON, at most {} are read here",
                   grouped(static_cast<std::uint64_t>(text.size())),
                   grouped(static_cast<std::uint64_t>(limits.max_bytes)));
  }
  // A comment may hold a lone quotation mark, behind which everything would look like a string; nothing of
  // others' comes with comments, and the parser itself does not recurse.
  const JsonShape shape = shape_of(text, limits.max_depth);
  if (shape.too_deep)
    return failure("byte {}: nested deeper than {} levels", *shape.too_deep, limits.max_depth);
  if (makes_tree && shape.num_values > limits.max_values) {
    return failure("{} values, at most {} are read here", grouped(std::uint64_t{shape.num_values}),
                   grouped(std::uint64_t{limits.max_values}));
  }
  return std::nullopt;
}

/// What follows `mark` in the library's sentence, which begins with a class and a line: "[json.exception...]
/// parse error at line 1, column 2: syntax error while parsing value - unexpected '}'; expected ...".
std::string_view after(std::string_view sentence, std::string_view mark) {
  const std::size_t at = sentence.find(mark);
  return at == std::string_view::npos ? sentence : sentence.substr(at + mark.size());
}

template <class Json>
Result<Json> parse(std::string_view text, const JsonLimits& limits) {
  if (auto failed = passed_limit(text, limits, /*makes_tree=*/true)) return std::move(*failed);
  try {
    Json value = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/true, limits.comments);
    return value;
  } catch (const nlohmann::json::parse_error& error) {
    // Counted from 1, and one more at the end of the text.
    const std::size_t at = std::min(error.byte == 0 ? 0 : error.byte - 1, text.size());
    return failure("byte {}: {}", at, shortened_text(after(after(error.what(), ": "), "syntax error ")));
  } catch (const nlohmann::json::exception& error) {
    return failure("{}", shortened_text(after(error.what(), "] ")));
  }
}

}  // namespace

Result<nlohmann::json> parse_json(std::string_view text, const JsonLimits& limits) {
  return parse<nlohmann::json>(text, limits);
}

Result<nlohmann::ordered_json> parse_ordered_json(std::string_view text, const JsonLimits& limits) {
  return parse<nlohmann::ordered_json>(text, limits);
}

std::optional<Failure> read_json(std::string_view text, nlohmann::json_sax<nlohmann::json>& reader,
                                 const JsonLimits& limits) {
  if (auto failed = passed_limit(text, limits, /*makes_tree=*/false)) return failed;
  nlohmann::json::sax_parse(text.begin(), text.end(), &reader);
  return std::nullopt;
}

}  // namespace baleen
