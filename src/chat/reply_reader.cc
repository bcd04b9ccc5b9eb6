#include "chat/reply_reader.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/utf8.h"
#include "chat/drafted_block.h"
#include "chat/format.h"
#include "chat/invoke_reader.h"
#include "chat/markup_scanner.h"
#include "chat/parse.h"
#include "chat/reply_parts.h"
#include "chat/white_space.h"

namespace baleen {

using Kind = Markup::Kind;

class ReplyReader::State {
 public:
  State(ThinkingMode mode, std::span<const DeclaredTool> tools)
      : tools_(tools.begin(), tools.end()),
        place_(mode == ThinkingMode::kThinking ? Place::kReasoning : Place::kContent) {}

  void feed(std::string_view piece) {
    bytes_ += piece;
    std::string text;
    const std::size_t num_used = append_as_utf8(bytes_, text);
    is_valid_utf8_ &= std::string_view(bytes_).substr(0, num_used) == text;
    bytes_.erase(0, num_used);
    for (const Markup& stretch : scanner_.feed(text)) read(stretch);
  }

  void finish(bool cut) {
    for (const Markup& stretch : scanner_.finish()) read(stretch);
    end(cut);
    keep_only_exact_block();
  }

  ReplyParts parts;
  std::string block;  ///< the first tool-call block, with the blank line before it

 private:
  enum class Place { kReasoning, kDraft, kContent, kBlock, kInvoke, kEnd };

  void read(const Markup& stretch) {
    if (is_recording_) block += stretch.raw;
    if (stretch.kind != Kind::kText) parts.note_markup();
    switch (place_) {
      case Place::kReasoning:
        return read_reasoning(stretch);
      case Place::kDraft:
        return read_draft(stretch);
      case Place::kContent:
      case Place::kBlock:
        return read_content(stretch);
      case Place::kInvoke:
        return read_invoke(stretch);
      case Place::kEnd:
        break;
    }
  }

  void read_reasoning(const Markup& stretch) {
    if (stretch.kind == Kind::kText) {
      parts.add_reasoning(stretch.raw);
    } else if (stretch.kind == Kind::kEndThink) {
      parts.end_reasoning();
      place_ = Place::kContent;
    } else if (stretch.kind == Kind::kEos) {
      end(false);
    } else if (stretch.opens(Kind::kCalls) && !tools_.empty() && !is_replaying_thought_) {
      place_ = Place::kDraft;
      draft_.emplace().add(stretch, true);
    } else {
      ++parts.num_repairs;
    }
  }

  void read_draft(const Markup& stretch) {
    if (stretch.kind == Kind::kEos && draft_->is_whole()) {
      end(false);
    } else if (draft_->add(stretch, !stretch.opens(Kind::kInvoke) || tool_of(stretch) != nullptr) ==
               DraftedBlock::Verdict::kThought) {
      replay_draft_as_thought();
    }
  }

  void replay_draft_as_thought() {
    place_ = Place::kReasoning;
    is_replaying_thought_ = true;
    for (const Markup& stretch : std::exchange(draft_, std::nullopt)->take()) read(stretch);
    is_replaying_thought_ = false;
  }

  void replay_draft_as_calls() {
    ++parts.num_repairs;
    place_ = Place::kContent;
    parts.add_content(parts.reasoning.end_paragraph());  // the blank line before the block
    for (const Markup& stretch : std::exchange(draft_, std::nullopt)->take()) read(stretch);
  }

  /// Content, and what stands between the invokes of a block, which is content too.
  void read_content(const Markup& stretch) {
    if (stretch.kind == Kind::kText) {
      parts.add_content(stretch.raw);
    } else if (stretch.kind == Kind::kEos) {
      end(false);
    } else if (stretch.opens(Kind::kCalls) && place_ == Place::kContent) {
      const std::string blank_line = parts.content.end_paragraph();
      if (block.empty()) {
        block = blank_line + stretch.raw;
        is_recording_ = true;
      }
      place_ = Place::kBlock;
    } else if (stretch.closes(Kind::kCalls) && place_ == Place::kBlock) {
      parts.content.end_paragraph();
      is_recording_ = false;
      place_ = Place::kContent;
    } else if (stretch.opens(Kind::kInvoke)) {
      begin_invoke(stretch);
    } else {
      ++parts.num_repairs;
      if (stretch.opens(Kind::kParameter) && stretch.name)
        parts.add_content("\n" + without_markup(*stretch.name) + ": ");
    }
  }

  void begin_invoke(const Markup& opening) {
    if (place_ == Place::kContent) ++parts.num_repairs;
    place_ = Place::kInvoke;
    invoke_.emplace(opening, tool_of(opening), parts);
    if (opening.is_empty) read_invoke({Kind::kInvoke, "", true});
  }

  void read_invoke(const Markup& stretch) {
    const bool is_declared = stretch.opens(Kind::kInvoke) && tool_of(stretch) != nullptr;
    const InvokeReader::Verdict verdict = invoke_->feed(stretch, is_declared);
    if (verdict == InvokeReader::Verdict::kGoesOn) return;
    invoke_.reset();
    place_ = Place::kBlock;
    if (verdict == InvokeReader::Verdict::kOverBeforeThis) read_content(stretch);
  }

  void end(bool cut) {
    if (place_ == Place::kDraft) {
      if (!cut && draft_->is_whole()) {
        replay_draft_as_calls();
      } else {
        replay_draft_as_thought();
      }
    }
    if (place_ == Place::kInvoke) {
      invoke_->finish(cut);
      invoke_.reset();
    }
    if (place_ == Place::kReasoning) {
      parts.end_reasoning();
    } else {
      parts.end_content();
    }
    is_recording_ = false;
    place_ = Place::kEnd;
  }

  /// White space around a name does not matter.
  [[nodiscard]] const DeclaredTool* tool_of(const Markup& invoke) const {
    if (!invoke.name) return nullptr;
    const auto found = std::ranges::find(tools_, trimmed(*invoke.name), &DeclaredTool::name);
    return found == tools_.end() ? nullptr : &*found;
  }

  /// The block is exact if the strict parser reads the same calls in it.
  void keep_only_exact_block() {
    if (is_valid_utf8_ && !block.empty()) {
      const Result<Message> strict =
          parse_completion(block + std::string(chat_format::kEos), ThinkingMode::kChat);
      const auto is_same = [](const ToolCall& a, const ToolCall& b) {
        return a.name == b.name && a.arguments == b.arguments;
      };
      if (strict && std::ranges::equal(strict.value().tool_calls, parts.calls(), is_same)) return;
    }
    block.clear();
  }

  std::vector<DeclaredTool> tools_;
  std::string bytes_;  ///< the beginning of a character
  bool is_valid_utf8_ = true;
  MarkupScanner scanner_;
  Place place_;
  std::optional<DraftedBlock> draft_;   ///< in kDraft
  std::optional<InvokeReader> invoke_;  ///< in kInvoke
  bool is_replaying_thought_ = false;
  bool is_recording_ = false;
};

ReplyReader::ReplyReader(ThinkingMode mode, std::span<const DeclaredTool> tools)
    : state_(std::make_unique<State>(mode, tools)) {}
ReplyReader::~ReplyReader() = default;
ReplyReader::ReplyReader(ReplyReader&&) noexcept = default;
ReplyReader& ReplyReader::operator=(ReplyReader&&) noexcept = default;

std::vector<ReplyPart> ReplyReader::feed(std::string_view piece) {
  state_->feed(piece);
  return state_->parts.take();
}

std::vector<ReplyPart> ReplyReader::finish(bool cut) {
  state_->finish(cut);
  return state_->parts.take();
}

std::string_view ReplyReader::raw_calls() const { return state_->block; }
std::size_t ReplyReader::num_calls() const { return state_->parts.calls().size(); }
std::span<const ToolCall> ReplyReader::calls() const { return state_->parts.calls(); }
std::size_t ReplyReader::num_repairs() const { return state_->parts.num_repairs; }

}  // namespace baleen
