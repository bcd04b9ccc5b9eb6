/// The files of hardware/profiles/, as the build put them into the program.
#pragma once

#include <span>
#include <string_view>

namespace baleen {

struct BuiltInProfile {
  std::string_view name;  ///< what the file is called
  std::string_view text;
};

[[nodiscard]] std::span<const BuiltInProfile> built_in_profiles();

}  // namespace baleen
