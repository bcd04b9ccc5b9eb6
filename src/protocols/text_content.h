/// Content that is a string or a list of parts, in the words of every protocol.
///
/// This model reads text. What a conversation holds beside text (pictures, files, parts that a later client
/// invents) is no reason to end it: a short text stands in for it, and the reply's header x-baleen-ignored
/// names it. Where a document or a search result has text of its own, that is read. A model that was trained
/// on images would take such a text for the whole: to it they are refused.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocols/request_fields.h"

namespace baleen {

/// Whose content it is. Nothing stands in for what the model itself is said to have written beside text: it
/// would learn to write such words.
enum class Speaker : std::uint8_t { kOthers, kModel };

/// The text of the field, parts joined by blank lines; empty when absent. Refuses what is neither a string
/// nor parts, and parts of text without a text; all else has a text or a text in its place, and is noted in
/// `ignored` then.
[[nodiscard]] std::string read_text_content(const RequestFields& fields, std::string_view name,
                                            std::vector<std::string>& ignored,
                                            Speaker speaker = Speaker::kOthers);
/// Refuses when absent.
[[nodiscard]] std::string required_text_content(const RequestFields& fields, std::string_view name,
                                                std::vector<std::string>& ignored,
                                                Speaker speaker = Speaker::kOthers);

/// The same of one part, block or item, whose `type` says what it is.
[[nodiscard]] std::string read_text_part(const RequestFields& part, std::vector<std::string>& ignored);

/// The text that a part, block or item of any type has: in `text`, `content`, or (documents) `source`.
/// Nothing where it has none.
[[nodiscard]] std::optional<std::string> text_within(const RequestFields& part,
                                                     std::vector<std::string>& ignored);

/// What a tool gave back, in whatever form: as content where it is a string, parts or nothing, else its JSON.
[[nodiscard]] std::string read_tool_output(const RequestFields& fields, std::string_view name,
                                           std::vector<std::string>& ignored);

/// The members of an object that can be read, as JSON: without `type`, `id` and the like, and without data
/// that is encoded or encrypted. "{}" where nothing is left.
[[nodiscard]] std::string readable_json(const PythonJson& value);

/// By rules that know images: refuses the first one that a part of the field is, or a part within a part.
void refuse_images(const RequestFields& fields, std::string_view name, const PromptProfile& profile);

/// Notes that a part, block or item of this type was passed over.
void pass_over(const RequestFields& object, std::string_view type, std::vector<std::string>& ignored);

}  // namespace baleen
