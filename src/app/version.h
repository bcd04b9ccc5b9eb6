/// What this program was built from.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace baleen {

/// "0.1.0"
[[nodiscard]] std::string program_version();

/// Version, revision, compiler, CUDA architectures, libraries and licence: lines for people, the first of
/// them "baleen VERSION"; or one JSON object.
[[nodiscard]] std::string version_text(bool as_json);

/// Of these, what a report of a machine says: version, revision, digest of the sources that modules are made
/// of, compiler and kind of build.
[[nodiscard]] nlohmann::ordered_json program_facts();

}  // namespace baleen
