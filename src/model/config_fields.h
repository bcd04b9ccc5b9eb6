/// Single fields of a model's configuration by their names in config.json, for files that change a few of
/// them.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"

namespace baleen {

/// Sets the fields that `fields`, an object, names, and no others; also "dense_dtype" ("bf16" or "fp8"),
/// which config.json says by its "quantization_config". `where(name)` begins the sentence of the `Error` for
/// a field of a wrong type or value, or one that is not known. The fields are not compared with one another:
/// `validate` does that.
void set_config_fields(ModelConfig& config, const nlohmann::ordered_json& fields,
                       const std::function<std::string(std::string_view)>& where);

/// Where a config.json has the fields of its text model: of V4.1 in "text_config", of V4 beside all others.
[[nodiscard]] const nlohmann::ordered_json& text_fields(const nlohmann::ordered_json& object);
[[nodiscard]] nlohmann::ordered_json& text_fields(nlohmann::ordered_json& object);

/// Says in a config.json how routed experts are stored, as their makers do: "expert_dtype", which V4.1 has in
/// its "quantization_config" where there is one, and of NVFP4 beside FP8 matrices "moe_quant_algo".
void write_expert_format(nlohmann::ordered_json& object, WeightFormat format);

/// What `set_config_fields` knows.
[[nodiscard]] std::vector<std::string> config_field_names();

}  // namespace baleen
