/// Figures as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace baleen {

/// Three significant digits, as many as an estimate is worth: "1070", "27.3", "0.0123"
[[nodiscard]] std::string significant_text(double value);

/// The same of a time: "12.3 us", "4.56 ms"
[[nodiscard]] std::string seconds_text(double seconds);

/// "3.05 G", "192"
[[nodiscard]] std::string count_text(double count);

/// Three digits at most and a prefix from pico to peta before `unit`: "500 µs", "1.98 PFLOP/s"
[[nodiscard]] std::string si_text(double value, std::string_view unit);

/// "43.933" of bytes
[[nodiscard]] std::string gigabytes_text(double bytes);

/// "8K", "1M", "300": powers of two
[[nodiscard]] std::string positions_text(double positions);

/// "1 query", "12 queries"
[[nodiscard]] std::string queries_text(std::int64_t count);

}  // namespace baleen
