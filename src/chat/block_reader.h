/// A tool-call block that no grammar enforced, read as a whole: what is unambiguous becomes calls, the rest
/// text.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/marked_text.h"
#include "chat/call_tags.h"
#include "chat/message.h"
#include "chat/reply_part.h"

namespace baleen {

struct BlockItem {
  enum class Kind {
    kCall,
    kDropped,  ///< a call that could not be read in one way only, or of no declared tool: `text` shows it
    kText,     ///< around or between calls
  };
  Kind kind = Kind::kText;
  ToolCall call;  ///< without id; of a dropped one the name
  std::string text;
};

struct ReadBlock {
  std::vector<BlockItem> items;
  bool has_calls = false;  ///< an item is a call or a dropped one
  std::size_t num_repairs = 0;
};

/// `block`: from the first `｜DSML｜` token, with its `<`, to the end of the reply. `cut`: the reply was ended
/// by a limit, so a call that is not closed is dropped. Linear in the block, but for its number of tags
/// squared over 1024 bytes.
[[nodiscard]] ReadBlock read_block(const MarkedText& block, std::span<const DeclaredTool> tools,
                                   const CallTags& tags, bool cut);

}  // namespace baleen
