#include "chat/block_scanner.h"

#include <algorithm>

#include "chat/format.h"
#include "chat/spellings.h"
#include "chat/white_space.h"

namespace baleen {
namespace {

using Kind = Markup::Kind;

class Scanner {
 public:
  Scanner(const MarkedText& block, const CallTags& tags) : block_(block), tags_(tags) {}

  std::vector<Markup> run() {
    for (std::size_t i = 0; i < block_.controls.size(); ++i) {
      const TextRange& control = block_.controls[i];
      const std::string_view token = block_.text_of(control);
      if (token == chat_format::kDsml) {
        const std::size_t first = i;
        while (is_doubled(i)) ++i;
        read_tag_at(i, first);
        continue;
      }
      give_text(control.begin);
      if (token == chat_format::kEos) return end();
      out_.push_back({.kind = Kind::kControl, .raw = std::string(token)});
      done_ = control.end();
    }
    give_text(block_.text.size());
    return end();
  }

 private:
  [[nodiscard]] std::string_view between(std::size_t begin, std::size_t end) const {
    return std::string_view(block_.text).substr(begin, end - begin);
  }

  void give_text(std::size_t end) {
    if (end > done_) out_.push_back({.kind = Kind::kText, .raw = std::string(between(done_, end))});
    done_ = std::max(done_, end);
  }

  std::vector<Markup> end() {
    out_.push_back({.kind = Kind::kEnd});
    return std::move(out_);
  }

  /// Whether the same token follows at once.
  [[nodiscard]] bool is_doubled(std::size_t idx) const {
    return idx + 1 < block_.controls.size() && block_.controls[idx + 1].begin == block_.controls[idx].end() &&
           block_.text_of(block_.controls[idx + 1]) == chat_format::kDsml;
  }

  /// `first`: the token that it repeats, or itself.
  void read_tag_at(std::size_t idx, std::size_t first) {
    const TextRange& control = block_.controls[idx];
    const std::size_t begin = block_.controls[first].begin;
    const std::string_view before = between(done_, begin);
    const std::string_view prefix = before.substr(before.size() - tag_prefix_bytes(before));
    give_text(begin - prefix.size());
    const bool is_closing = in_plain_spelling(prefix).text.find_first_of("/\\") != std::string::npos;
    const std::string_view after = text_after(idx);
    std::size_t num_bytes = 0;
    Markup tag = read_tag(after, is_closing, tags_, num_bytes);
    const bool is_last = control.end() + after.size() == block_.text.size() || ends_reply_after(idx);
    tag.is_exact &= (prefix == "<" || prefix == "</") && idx == first;
    if (is_last && !tag.is_closing &&
        (tag.kind == Kind::kStray ? is_blank(after) : is_cut(tag, after, num_bytes)))
      tag.kind = Kind::kCut;
    if (tag.kind == Kind::kNamed && !tag.is_closing && (!tag.is_ended || prefix.empty())) {
      tag.kind = Kind::kStray;  // the word after it is text
      num_bytes = 0;
    }
    out_.push_back(std::move(tag));
    done_ = control.end() + num_bytes;
  }

  /// Up to the next control token, or to the beginning of its tag.
  [[nodiscard]] std::string_view text_after(std::size_t idx) const {
    const std::size_t begin = block_.controls[idx].end();
    if (idx + 1 == block_.controls.size()) return between(begin, block_.text.size());
    const TextRange& next = block_.controls[idx + 1];
    const std::string_view text = between(begin, next.begin);
    const bool is_tag = block_.text_of(next) == chat_format::kDsml;
    return is_tag ? text.substr(0, text.size() - tag_prefix_bytes(text)) : text;
  }

  [[nodiscard]] bool ends_reply_after(std::size_t idx) const {
    return idx + 1 < block_.controls.size() && block_.text_of(block_.controls[idx + 1]) == chat_format::kEos;
  }

  /// An opening tag without its end, where the reply ends too.
  static bool is_cut(const Markup& tag, std::string_view after, std::size_t num_bytes) {
    if (tag.kind == Kind::kNamed) return after.find_first_of(" \n<>\"'") == std::string_view::npos;
    return !tag.is_ended && is_blank(after.substr(num_bytes));
  }

  const MarkedText& block_;
  const CallTags& tags_;
  std::vector<Markup> out_;
  std::size_t done_ = 0;  ///< bytes that went into `out_`
};

}  // namespace

std::vector<Markup> scan_block(const MarkedText& block, const CallTags& tags) {
  return Scanner(block, tags).run();
}

std::size_t tag_prefix_bytes(std::string_view text) {
  const auto strip_blanks = [](std::string_view& part) {
    while (true) {
      const std::size_t ascii = part.size() - (part.find_last_not_of(" \t") + 1);
      const std::size_t num_bytes = ascii > 0 ? ascii : spelled_at_end(part, " ");
      if (num_bytes == 0) return;
      part.remove_suffix(num_bytes);
    }
  };
  std::string_view rest = text;
  strip_blanks(rest);
  const std::size_t slash = spelled_at_end(rest, "/");
  std::string_view before_slash = rest.substr(0, rest.size() - slash);
  if (slash > 0 && before_slash.ends_with("</")) before_slash.remove_suffix(1);  // <//
  strip_blanks(before_slash);
  if (const std::size_t angle = spelled_at_end(before_slash, "<"); angle > 0) {
    before_slash.remove_suffix(angle);
    if (slash == 0 && before_slash.ends_with("</")) before_slash.remove_suffix(2);  // </<
    return text.size() - before_slash.size();
  }
  if (rest.ends_with("<\\")) return text.size() - (rest.size() - 2);
  return slash > 0 ? text.size() - (rest.size() - slash) : 0;
}

}  // namespace baleen
