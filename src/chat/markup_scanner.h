/// A reply as a stream of text and markup.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "chat/markup.h"

namespace baleen {

/// Gives out what is certain: text that may be the start of markup waits for what follows, less than
/// `kMaxTagBytes`. The stretches are the same however the reply was cut, but that text may come in several.
class MarkupScanner {
 public:
  /// `piece`: whole characters of valid UTF-8.
  [[nodiscard]] std::vector<Markup> feed(std::string_view piece);
  /// The reply is over: judges what waited. A tag that opens without its end, and the first characters of a special
  /// string, are kCut.
  [[nodiscard]] std::vector<Markup> finish();

 private:
  std::vector<Markup> scan(bool is_final);

  std::string pending_;
};

/// `text` without its markup.
[[nodiscard]] std::string without_markup(std::string_view text);

}  // namespace baleen
