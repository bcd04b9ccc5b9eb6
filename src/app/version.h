/// What this program was built from.
#pragma once

#include <string>

namespace baleen {

/// "0.1.0"
[[nodiscard]] std::string program_version();

/// Version, revision, compiler, CUDA architectures, libraries and licence: lines for people, the first of
/// them "baleen VERSION"; or one JSON object.
[[nodiscard]] std::string version_text(bool as_json);

}  // namespace baleen
