/// Content that is a string or a list of parts, which in every protocol differ in the names of their types alone.
#pragma once

#include <initializer_list>

#include "protocols/request_fields.h"

namespace baleen {

/// The text of the field, parts joined by blank lines; empty when absent. A part is {"type": T, "text": ...} with T among
/// `text_types`, or {"type": "refusal", "refusal": ...}, which models wrote in place of text. Refuses other parts (images,
/// audio, files), naming them: this model reads text.
[[nodiscard]] std::string read_text_content(const RequestFields& fields, std::string_view name,
                                            std::initializer_list<std::string_view> text_types);
/// Refuses when absent.
[[nodiscard]] std::string required_text_content(const RequestFields& fields, std::string_view name,
                                                std::initializer_list<std::string_view> text_types);

/// What is said of a part, block or item of a type that is known or unknown, but not text.
void refuse_part(const RequestFields& part, std::string_view type, std::string_view taken);

}  // namespace baleen
