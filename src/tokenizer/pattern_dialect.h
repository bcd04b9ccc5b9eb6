/// Split patterns are written for Oniguruma (the regular expressions of Ruby); PCRE2 runs them. Most of what
/// such patterns use means the same to both: properties, classes, look-ahead, counts. This evens out the
/// rest.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace baleen {

/// Sentences show a pattern up to here.
inline constexpr std::size_t kMaxShownPatternBytes = 200;

/// The PCRE2 pattern that matches what `pattern` matches in Oniguruma, under PCRE2_UTF, PCRE2_UCP and
/// PCRE2_MULTILINE. Spells out `\s` and `\w`, which in PCRE2 are other sets.
/// Throws `Error` for what has another meaning and no simple equivalent: sets within sets, `&&`, `\h`, `\b`,
/// and
/// `\S` and `\W` within a class. `where` is what sentences call the pattern.
std::string pcre2_from_oniguruma(std::string_view pattern, std::string_view where);

}  // namespace baleen
