/// One invoke of a tool-call block: a call, or text when its tool is unknown.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "chat/argument_writer.h"
#include "chat/markup.h"
#include "chat/reply_parts.h"

namespace baleen {

/// Begins with its opening tag and is fed what follows until it says that it is over. Everything it reads goes to
/// `parts`: as a call's begin, arguments and end, or, of an unknown tool, as a paragraph of content with the tool's
/// name and a line for each parameter.
class InvokeReader {
 public:
  /// `tool`: the one named, if it is declared. Tool and parts must outlive this.
  InvokeReader(const Markup& opening, const DeclaredTool* tool, ReplyParts& parts);

  enum class Verdict {
    kGoesOn,
    kOver,            ///< with this stretch
    kOverBeforeThis,  ///< which is not part of it
  };
  /// `is_declared_invoke`: the stretch opens an invoke of a declared tool.
  Verdict feed(const Markup& stretch, bool is_declared_invoke);
  /// The reply ends here.
  void finish(bool cut);

 private:
  enum class Place { kBetween, kValue, kLooseValue };

  Verdict feed_between(const Markup& stretch);
  Verdict feed_value(const Markup& stretch, bool is_declared_invoke);
  void begin_value(const Markup& tag);
  void end_value(ArgumentWriter::End end);
  void add_value(std::string_view text);
  Verdict end(Verdict verdict, bool cut = false);
  void flush_arguments();
  void flush_loose_text();
  [[nodiscard]] std::optional<std::string> key_of(const Markup& tag) const;
  [[nodiscard]] bool begins_next_parameter(const Markup& tag) const;

  const DeclaredTool* tool_;
  ReplyParts& parts_;
  std::string name_;
  std::optional<ArgumentWriter> arguments_;  ///< of a declared tool
  Place place_ = Place::kBetween;
  std::string loose_text_;     ///< outside parameters; may be the arguments as one JSON object
  bool is_line_start_ = true;  ///< in a value
  bool has_waiting_eos_ =
      false;  ///< in a value: the end of the reply, or part of the text if the reply goes on
};

}  // namespace baleen
