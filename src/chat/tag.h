/// The tags of a tool-call block, read with tolerance.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/call_tags.h"

namespace baleen {

/// A stretch of a tool-call block: text, or one piece of markup.
struct Markup {
  enum class Kind {
    kText,
    kCalls,      ///< `<｜DSML｜tool_calls>` (here and below in V4's spelling) or its closing tag
    kInvoke,     ///< `<｜DSML｜invoke name="NAME">` or its closing tag
    kParameter,  ///< `<｜DSML｜parameter name="KEY" string="true|false">` or its closing tag
    kNamed,      ///< a tag of another name
    kStray,      ///< `｜DSML｜` without a name after it
    kControl,    ///< another control token than `｜DSML｜` and the end token
    kCut,        ///< the reply ended inside an opening tag
    kEnd,        ///< the reply is over
  };
  Kind kind = Kind::kText;
  std::string raw;       ///< what the model wrote, where this is text or a control token
  std::string tag_name;  ///< as written
  bool is_closing = false;
  bool is_empty = false;     ///< ended by `/>`: opens and closes
  bool is_ended = true;      ///< false: the tag's `>` is missing
  bool is_exact = true;      ///< false: something about it was repaired
  bool is_doubtful = false;  ///< where the tag ends, or what its name is, cannot be said
  bool is_look_alike = false;
  bool is_assigned = false;   ///< `<parameter=KEY>`, as Qwen writes it, each value on lines of its own
  bool has_entities = false;  ///< such as `&quot;`: a value behind it may have them too
  std::optional<std::string> name;
  std::optional<bool> is_string;
  std::optional<std::string> value;                         ///< what an attribute `value="..."` holds
  std::vector<std::pair<std::string, std::string>> others;  ///< attributes that the format does not have

  [[nodiscard]] bool opens(Kind tag) const { return kind == tag && !is_closing; }
  [[nodiscard]] bool closes(Kind tag) const { return kind == tag && is_closing; }
};

/// The longest tag; what does not end within that is cut there.
inline constexpr std::size_t kMaxTagBytes = 1024;

/// What follows a `｜DSML｜` token: the tag's name and attributes, up to `>` or to where they end. Sets
/// `num_bytes` to the bytes of `text` that are the tag's. `is_closing`: a slash stood before the token. A tag
/// as the format writes it is read as it is; any other in ASCII spelling, with tolerance: names a letter or
/// two off, attributes in any order, under other names (`key`, `id`, `type`), with other quotation marks or
/// none; the name may stand alone or behind the tag's. `tags`: as the format spells them.
[[nodiscard]] Markup read_tag(std::string_view text, bool is_closing, const CallTags& tags,
                              std::size_t& num_bytes);

/// Where a text stands that may be a tag. Where a tag is due, ordinary words are names of tags too:
/// `<function=run>`, `</function>`.
enum class Place { kInText, kTagIsDue };

/// A tag without the token at the beginning of `text`: `<|DSML|parameter name=..>`, `<DSML invoke ..>`,
/// `</parameter>`. It means something only where a tag is due and text makes no sense. Its size in
/// `num_bytes`.
[[nodiscard]] std::optional<Markup> read_look_alike(std::string_view text, std::size_t& num_bytes,
                                                    Place place = Place::kInText);

/// `value` without the closing tags that end it, written without the token; `key`: whose value it is.
[[nodiscard]] std::string_view without_look_alike_closers(std::string_view value, std::string_view key);

/// Whether a value that has no closing tag ends in what may be one past recognition.
[[nodiscard]] bool may_end_in_tag(std::string_view value);

/// `text` without anything that looks like a tag of this format, and without special strings.
[[nodiscard]] std::string without_markup(std::string_view text);

}  // namespace baleen
