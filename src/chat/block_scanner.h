/// A tool-call block as a list of text and tags.
#pragma once

#include <string>
#include <vector>

#include "base/marked_text.h"
#include "chat/call_tags.h"
#include "chat/tag.h"

namespace baleen {

/// Only `｜DSML｜` tokens make tags. Ends with kEnd; what follows the end token is left out.
[[nodiscard]] std::vector<Markup> scan_block(const MarkedText& block, const CallTags& tags);

/// The bytes at the end of `text` that belong to the tag whose `｜DSML｜` follows: `<`, `</` or `/`.
[[nodiscard]] std::size_t tag_prefix_bytes(std::string_view text);

}  // namespace baleen
