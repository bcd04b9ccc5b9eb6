/// Text that a client carries and sends back, so that the server need not keep it: reasoning in
/// `encrypted_content`.
///
/// Base64 of the text and a tag over it (SipHash-2-4, 128 bits, keyed by the client's API key). The text is
/// not hidden: the client sees the reasoning anyway. The tag makes sure that what comes back is what was sent
/// to a client of that key; where the server needs no keys, it finds damage and nothing more.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace baleen {

[[nodiscard]] std::string seal_text(std::string_view text, std::string_view client_key);

/// Nothing: not sealed by `seal_text` with this key, or changed since.
[[nodiscard]] std::optional<std::string> open_sealed_text(std::string_view sealed,
                                                          std::string_view client_key);

}  // namespace baleen
