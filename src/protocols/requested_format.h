/// Structured output: OpenAI's response_format and text.format, Anthropic's output_config.format.
#pragma once

#include "protocols/request_fields.h"

namespace baleen {

/// Reads `format`, of type text, json_object or json_schema. The schema's fields (name, schema) stand in
/// `nested` if it names a field, else beside the type. `needs_name`: OpenAI's schemas have a name, and say
/// whether they are strict.
void read_format(const RequestFields& format, std::string_view nested, bool needs_name,
                 ResponseFormat& result);

/// The fields of other servers that enforce a form: guided_json, json_schema, guided_regex, regex,
/// guided_choice, and structured_outputs with one of json, json_object, regex, choice. Refuses a second form
/// beside the first, and a pattern or choices beside tools.
void read_enforced_output(const RequestFields& fields, ApiRequest& request);

/// What the prompt says of the format; null for none. A model whose prompt says nothing of JSON but that is
/// held to it starts badly, so a bare JSON object is announced as the schema of one.
[[nodiscard]] PythonJson format_in_prompt(const ResponseFormat& format);

}  // namespace baleen
