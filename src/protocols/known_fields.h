/// Every top-level field that clients are known to send, and what becomes of it. A protocol's table decides,
/// so that no field is passed over without a word; docs/protocols.md prints the tables and a test walks them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "protocols/request_fields.h"

namespace baleen {

struct KnownField {
  enum class Use : std::uint8_t {
    kHonoured,  ///< read, and refused when its value makes no sense
    kIgnored,   ///< changes nothing that the client could miss: `reason` says why
    kRefused,   ///< 400 with `reason`, unless the value asks for nothing
  };
  std::string_view name;
  Use use = Use::kHonoured;
  std::string_view reason = {};
  /// Of a refused field: JSON of a value, beside null, false, "" and [], that asks for nothing.
  std::string_view harmless = {};
};

// Of each protocol's requests, for its row; each stands beside the code that reads them.
[[nodiscard]] std::span<const KnownField> chat_completions_fields();
[[nodiscard]] std::span<const KnownField> completions_fields();
[[nodiscard]] std::span<const KnownField> responses_fields();
[[nodiscard]] std::span<const KnownField> messages_fields();

/// Refuses the first field of the body that the table refuses, and notes those it does not know in
/// `request.ignored`: they are passed over, and the response names them in a header.
void check_known_fields(const RequestFields& body, ApiRequest& request);

}  // namespace baleen
