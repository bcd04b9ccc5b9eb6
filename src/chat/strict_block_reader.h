/// A tool-call block that a grammar enforced, read while it arrives and exactly as it stands.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>

#include "chat/call_tags.h"
#include "chat/reply_part.h"
#include "chat/reply_parts.h"

namespace baleen {

/// The grammar lets `｜DSML｜` stand in tags alone, so the block's text says all, and nothing is repaired: a
/// value is what stands between its tags. Strings stream; other values go out when they are whole. The
/// closing brace of a call's arguments goes out with the call's closing tag alone: a reply that is cut before
/// leaves a beginning of an object that no length makes JSON of, without what may have begun a closing tag.
class StrictBlockReader {
 public:
  /// `parts` and `tools` outlive this. A call of a tool that the grammar does not hold begins in `parts` when
  /// all its required parameters have begun: what was given out cannot be taken back. One that ends without
  /// them is dropped.
  StrictBlockReader(ReplyParts& parts, std::span<const DeclaredTool> tools, const CallTags& tags)
      : parts_(parts), tools_(tools), tags_(tags) {}

  /// More of the block, from after the first `<｜DSML｜` on: the rest of its opening tag. Whole characters.
  void feed(std::string_view text);

 private:
  enum class Place { kHead, kBetweenInvokes, kName, kBetweenParameters, kKey, kFlag, kString, kJson, kEnd };

  bool step();
  bool read_between_invokes();
  bool read_between_parameters();
  bool read_string();
  bool skip(std::string_view literal, Place next);
  std::optional<std::string> take_until(std::string_view end);
  void begin_call(const std::string& name);
  void begin_argument();
  void give(std::string_view json);
  void end_call();
  void drop_kept_call();

  /// A call that waits for its required parameters.
  struct KeptCall {
    std::string name, arguments;
    std::unordered_set<std::string> missing;
  };

  ReplyParts& parts_;
  std::span<const DeclaredTool> tools_;
  const CallTags& tags_;
  std::optional<KeptCall> kept_;
  Place place_ = Place::kHead;
  std::string pending_;
  std::size_t num_searched_ = 0;  ///< bytes of it that do not hold what `take_until` looks for
  std::string key_;
  std::unordered_set<std::string> keys_;
  bool is_passed_over_ = false;  ///< the argument's key came before: what was streamed cannot be taken back
};

}  // namespace baleen
