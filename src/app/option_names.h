/// The names of settings on the command line.
///
/// Sentences of the folders below say which setting to change by its concept between single guillemets,
/// "‹context parallelism› 3": only app/ knows what the option is called. They read well without it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace baleen {

/// A setting as sentences have it, and its option.
using OptionName = std::pair<std::string_view, std::string_view>;

/// Ascending by setting.
[[nodiscard]] std::span<const OptionName> option_names();

/// `sentence` with the option's name for every setting: "--cp 3". What is no setting stays as it is.
[[nodiscard]] std::string in_options(std::string_view sentence);

}  // namespace baleen
