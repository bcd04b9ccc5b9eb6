#include "terminal/reply_printer.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/standard_streams.h"
#include "log/escape.h"

namespace baleen {

ReplyPrinter::ReplyPrinter(ThinkingMode mode, std::FILE* out, const CallTags& tags)
    : splitter_(mode, tags), out_(out), style_(text_style(out)), is_terminal_(::isatty(::fileno(out)) == 1) {}

void ReplyPrinter::feed(std::string_view text) {
  for (const StreamSplitter::Delta& delta : splitter_.feed(text)) show(delta);
}

void ReplyPrinter::finish() {
  for (const StreamSplitter::Delta& delta : splitter_.finish()) show(delta);
  fmt::print(out_, "{}{}", in_reasoning_ ? style_.plain : "", at_line_start_ ? "" : "\n");
  flush_checked(out_);
}

void ReplyPrinter::show(const StreamSplitter::Delta& delta) {
  const bool reasoning = delta.kind == StreamSplitter::Kind::kReasoning;
  if (reasoning && !in_reasoning_) fmt::print(out_, "{}", style_.dim);
  // Without styles a blank line alone would not tell the plan from the answer.
  if (!reasoning && in_reasoning_)
    fmt::print(out_, "{}{}\n", style_.plain, style_.plain.empty() ? "\n---\n" : "\n");
  in_reasoning_ = reasoning;
  fmt::print(out_, "{}", is_terminal_ ? escaped_text(delta.text) : delta.text);
  at_line_start_ = delta.text.ends_with('\n');
  flush_checked(out_);
}

}  // namespace baleen
