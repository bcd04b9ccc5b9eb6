#include "chat/reply_reader.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "chat/block_reader.h"
#include "chat/format.h"
#include "chat/parse.h"
#include "chat/reply_parts.h"
#include "chat/strict_block_reader.h"
#include "chat/tag.h"
#include "chat/white_space.h"

namespace baleen {
namespace {

using namespace chat_format;

std::string opening_of(std::string_view lead) {
  return std::string(lead.substr(lead.size() - opening_bytes(lead)));
}

bool is_all_calls(const ReadBlock& block) {
  return block.has_calls && std::ranges::all_of(block.items, [](const BlockItem& item) {
           return item.kind == BlockItem::Kind::kCall ||
                  (item.kind == BlockItem::Kind::kText && is_blank(item.text));
         });
}

}  // namespace

class ReplyReader::State {
 public:
  State(ThinkingMode mode, std::span<const DeclaredTool> tools, CallEnforcement enforcement,
        const CallTags& tags)
      : tools_(tools.begin(), tools.end()),
        tags_(tags),
        enforcement_(enforcement),
        place_(mode == ThinkingMode::kThinking ? Place::kReasoning : body_place()) {}

  void feed(const MarkedText& piece) {
    for_each_stretch(
        piece, [this](std::string_view text) { read_text(text); },
        [this](std::string_view token) { read_control(token); });
  }

  void finish(bool cut) {
    end(cut);
    keep_only_exact_block();
  }

  ReplyParts parts;
  std::string block;       ///< as `raw_calls` wants it
  bool has_block = false;  ///< as `has_block` says

 private:
  enum class Place {
    kReasoning,
    kDraft,       ///< a block within reasoning: a call, if nothing follows; `held_` keeps it
    kAfterDraft,  ///< and reasoning ended after it
    kContent,
    kBlock,      ///< `held_` keeps it, with all that follows
    kBodyBegin,  ///< an enforced body begins, calls or a value; `held_` keeps it
    kStrictBlock,
    kEnd,
  };

  [[nodiscard]] Place body_place() const {
    return enforcement_ == CallEnforcement::kWholeBody ? Place::kBodyBegin : Place::kContent;
  }

  void read_text(std::string_view text) {
    switch (place_) {
      case Place::kReasoning:
        return parts.add_reasoning(text);
      case Place::kDraft:
        return read_text_of_draft(text);
      case Place::kAfterDraft:
        after_draft_ += text;
        if (!is_blank(text)) end_draft_as_thought(body_place());
        return;
      case Place::kContent:
        return parts.add_content(text);
      case Place::kBlock:
        return held_.add_text(text);
      case Place::kBodyBegin:
        held_.add_text(text);
        return begin_body();
      case Place::kStrictBlock:
        block += text;
        return strict_->feed(text);
      case Place::kEnd:
        break;
    }
  }

  void read_control(std::string_view token) {
    if (place_ == Place::kEnd) return;
    if (token == kEos) return end(false);
    if (place_ == Place::kStrictBlock || place_ == Place::kBodyBegin) return read_text(token);
    const bool ends_reasoning =
        token == kEndThink && (place_ == Place::kReasoning || place_ == Place::kDraft);
    if (ends_reasoning) {
      if (place_ == Place::kReasoning) parts.end_reasoning();
      place_ = place_ == Place::kReasoning ? body_place() : Place::kAfterDraft;
      return;
    }
    if (place_ == Place::kDraft && draft_end_) go_on_reasoning();
    if (place_ == Place::kBlock || place_ == Place::kDraft) return held_.add_control(token);
    if (token == kDsml) return begin_block(token);
    ++parts.num_repairs;
    parts.note_markup();
  }

  void begin_block(std::string_view token) {
    if (place_ == Place::kAfterDraft) {
      end_draft_as_thought(body_place());
      return read_control(token);
    }
    if (place_ == Place::kContent && enforcement_ == CallEnforcement::kFromToken) {
      const std::string lead = parts.content.take_lead();
      parts.add_content(text_of_lead(lead));
      parts.end_content();
      return begin_strict_block(opening_of(lead) + std::string(token));
    }
    held_ = {};
    held_.add_text(place_ == Place::kReasoning ? parts.reasoning.take_lead() : parts.content.take_lead());
    held_.add_control(token);
    place_ = place_ == Place::kReasoning ? Place::kDraft : Place::kBlock;
  }

  void begin_strict_block(std::string opening) {
    place_ = Place::kStrictBlock;
    has_block = true;
    block = std::move(opening);
    parts.content.begin_paragraph();
    strict_.emplace(parts, tools_, tags_);
  }

  void begin_body() {
    const std::string& text = held_.text;
    if (text.size() < kBlockStart.size() && kBlockStart.starts_with(text)) return;
    const std::string body = std::exchange(held_, {}).text;
    if (!body.starts_with(kBlockStart)) {
      place_ = Place::kContent;
      return parts.add_content(body);
    }
    begin_strict_block(std::string(kBlockStart));
    read_text(std::string_view(body).substr(kBlockStart.size()));
  }

  /// A block in reasoning is a thought as soon as anything follows it.
  void read_text_of_draft(std::string_view text) {
    static constexpr std::string_view kClosing = "</";
    const std::string name = tags_.calls + ">";
    held_.add_text(text);
    const std::string_view held = held_.text;
    const TextRange& token = held_.controls.back();
    const bool is_closing = held.substr(0, token.begin).ends_with(kClosing);
    if (!draft_end_ && is_closing && held.substr(token.end()).starts_with(name))
      draft_end_ = token.end() + name.size();
    if (draft_end_ && !is_blank(held.substr(*draft_end_))) go_on_reasoning();
  }

  void go_on_reasoning() {
    const std::string rest = held_.text.substr(*draft_end_);
    held_.text.resize(*draft_end_);
    end_draft_as_thought(Place::kReasoning);
    read_text(rest);
  }

  void end_draft_as_thought(Place next) {
    const ReadBlock thought = read_block(std::exchange(held_, {}), tools_, tags_, true);
    ++parts.num_repairs;
    for (const BlockItem& item : thought.items) {
      parts.note_markup();
      parts.add_reasoning(item.text);
    }
    parts.note_markup();
    draft_end_.reset();
    place_ = next;
    if (next == Place::kReasoning) return;
    parts.end_reasoning();
    const std::string content = std::exchange(after_draft_, {});
    if (!content.empty()) read_text(content);
  }

  void end_draft(bool cut) {
    const ReadBlock draft = read_block(held_, tools_, tags_, cut);
    if (cut || !is_all_calls(draft)) {
      after_draft_.clear();
      return end_draft_as_thought(Place::kContent);
    }
    parts.end_reasoning();
    ++parts.num_repairs;
    give_block(draft);
    place_ = Place::kContent;
  }

  void give_block(const ReadBlock& read) {
    parts.num_repairs += read.num_repairs;
    has_block = true;
    const std::size_t marker = held_.controls.front().begin;
    const std::string_view lead = std::string_view(held_.text).substr(0, marker);
    bool is_fenced = read.has_calls && lead.find("```") != std::string_view::npos;
    bool is_lead = true;  // the first text is the lead, but for the `<` of the first tag
    for (const BlockItem& item : read.items) {
      std::string text = item.text;
      const bool is_text = item.kind == BlockItem::Kind::kText;
      if (std::exchange(is_lead, false) && is_text && lead.starts_with(text)) {
        parts.add_content(read.has_calls ? text_of_lead(text) : text);
        if (read.has_calls) parts.end_content();
        continue;
      }
      parts.note_markup();
      if (!is_text) {
        give_call(item);
        continue;
      }
      if (is_fenced && trimmed(text).starts_with("```")) {
        text = text.substr(text.find("```") + 3);
        is_fenced = false;
      }
      parts.add_content(text);
    }
    block = opening_of(lead) + held_.text.substr(marker);
    const std::size_t end = block.rfind(tags_.calls_end);
    if (end != std::string::npos) block.erase(end + tags_.calls_end.size());
    num_block_markers_ = static_cast<std::size_t>(std::ranges::count_if(
        held_.controls, [this](const TextRange& control) { return held_.text_of(control) == kDsml; }));
  }

  void give_call(const BlockItem& item) {
    parts.content.begin_paragraph();
    if (item.kind == BlockItem::Kind::kDropped) {
      parts.drop_call(item.call.name, item.text);
      return;
    }
    parts.begin_call(item.call.name);
    parts.add_arguments(item.call.arguments);
    parts.end_call();
  }

  void end(bool cut) {
    if (place_ == Place::kDraft || place_ == Place::kAfterDraft) end_draft(cut);
    if (place_ == Place::kBlock) give_block(read_block(held_, tools_, tags_, cut));
    parts.leave_call_cut();
    if (place_ == Place::kBodyBegin) end_body_begin(cut);
    if (place_ == Place::kContent && cut) drop_begun_block();
    if (place_ == Place::kReasoning) parts.end_reasoning();
    parts.end_content();
    place_ = Place::kEnd;
  }

  /// The body may still be calls.
  void end_body_begin(bool cut) {
    has_block = cut || held_.text.find('<') != std::string::npos;
    if (!has_block) parts.add_content(held_.text);
  }

  /// The content was cut where a block's first token was due.
  void drop_begun_block() {
    static constexpr std::string_view kBegun = kBlockStart.substr(0, kBlockStart.size() - kDsml.size());
    std::string lead = parts.content.take_lead();
    if (!tools_.empty() && lead.ends_with(kBegun)) {
      lead.resize(lead.size() - kBegun.size());
      has_block = true;
    }
    parts.add_content(lead);
  }

  /// The block is exact if it is whole, if the strict parser reads the same calls in it, and if every
  /// `｜DSML｜` in it was the token.
  void keep_only_exact_block() {
    if (!block.ends_with(tags_.calls_end)) block.clear();
    if (block.empty()) return;
    const Result<Message> strict = parse_completion(block + std::string(kEos), ThinkingMode::kChat, tags_);
    const auto is_same = [](const ToolCall& a, const ToolCall& b) {
      return a.name == b.name && a.arguments == b.arguments;
    };
    const bool is_exact = strict && std::ranges::equal(strict.value().tool_calls, parts.calls(), is_same);
    if (!is_exact || (!strict_ && num_markers(block) != num_block_markers_)) block.clear();
  }

  static std::size_t num_markers(std::string_view text) {
    std::size_t num = 0;
    for (std::size_t at = text.find(kDsml); at != std::string_view::npos; at = text.find(kDsml, at + 1))
      ++num;
    return num;
  }

  std::vector<DeclaredTool> tools_;
  const CallTags& tags_;
  CallEnforcement enforcement_;
  Place place_;
  MarkedText held_;
  std::size_t num_block_markers_ = 0;
  std::optional<std::size_t> draft_end_;     ///< kDraft: where `held_` goes on behind the closing tag
  std::string after_draft_;                  ///< kAfterDraft: the white space that came
  std::optional<StrictBlockReader> strict_;  ///< kStrictBlock: what reads the block
};

ReplyReader::ReplyReader(ThinkingMode mode, std::span<const DeclaredTool> tools, CallEnforcement enforcement,
                         const CallTags& tags)
    : state_(std::make_unique<State>(mode, tools, enforcement, tags)) {}
ReplyReader::~ReplyReader() = default;
ReplyReader::ReplyReader(ReplyReader&&) noexcept = default;
ReplyReader& ReplyReader::operator=(ReplyReader&&) noexcept = default;

std::vector<ReplyPart> ReplyReader::feed(const MarkedText& piece) {
  state_->feed(piece);
  return state_->parts.take();
}

std::vector<ReplyPart> ReplyReader::finish(bool cut) {
  state_->finish(cut);
  return state_->parts.take();
}

std::string_view ReplyReader::raw_calls() const { return state_->block; }
std::size_t ReplyReader::num_calls() const { return state_->parts.calls().size(); }
bool ReplyReader::has_block() const { return state_->has_block; }
std::span<const ToolCall> ReplyReader::calls() const { return state_->parts.calls(); }
std::size_t ReplyReader::num_dropped_calls() const { return state_->parts.num_dropped(); }
std::size_t ReplyReader::num_repairs() const { return state_->parts.num_repairs; }

}  // namespace baleen
