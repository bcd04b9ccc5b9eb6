/// A tool-call block while it is read: the stretches that are left, the items so far, and what is doubted.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/block_reader.h"
#include "chat/tag.h"

namespace baleen {

/// Whether a stretch between tags says nothing: white space, a line of a code fence, what is left of a broken
/// tag.
[[nodiscard]] bool is_debris(std::string_view text);

class OpenBlock {
 public:
  using Kind = Markup::Kind;

  /// `stretches` end with kEnd. `cut`: the reply was ended by a limit.
  OpenBlock(std::vector<Markup> stretches, bool cut) : stretches_(std::move(stretches)), cut_(cut) {}

  // The stretches that are left, the first of them here.

  [[nodiscard]] Markup& here() { return stretches_[next_]; }
  [[nodiscard]] const Markup& here() const { return stretches_[next_]; }
  [[nodiscard]] bool at(Kind kind) const { return here().kind == kind; }
  /// The stretch `distance` behind the one here; kEnd where there are not so many.
  [[nodiscard]] const Markup& peek(std::size_t distance) const;
  /// A stretch that was repaired counts as a repair.
  Markup take();
  void skip(std::size_t count) { next_ += count; }
  /// Removes the stretch `distance` behind the one here.
  void erase(std::size_t distance);
  /// Where a tag is due: text that begins with something like a tag gives that tag. Only behind white space,
  /// and never in a value, where it is text.
  void read_look_alike_here();
  [[nodiscard]] bool is_cut() const { return cut_; }

  // What was read.

  void note_repairs(std::size_t count = 1) { read_.num_repairs += count; }
  [[nodiscard]] std::size_t num_repairs() const { return read_.num_repairs; }
  /// Something was meant as a call.
  void note_call() { read_.has_calls = true; }
  [[nodiscard]] bool has_calls() const { return read_.has_calls; }
  void add_text(const std::string& text);
  void add_call(BlockItem call);
  /// A call that is not made: a repair.
  void add_dropped(const std::string& name, std::string text);

  /// The tag of the block itself.
  void note_block_tag(bool is_closing);
  /// An invoke begins, perhaps in a block whose own tag is missing.
  void note_invoke();
  [[nodiscard]] bool is_in_block() const { return is_in_block_; }

  // Doubts about calls from here on. They turn out to be founded where tags or text are left over.

  /// A value ended without its own tag.
  void note_implied_end();
  [[nodiscard]] bool has_implied_end() const { return first_implied_.has_value(); }
  /// Nothing was read since that end.
  [[nodiscard]] bool is_after_implied_end() const { return is_after_implied_end_; }
  void note_surplus() { is_surplus_ = true; }
  /// A value holds a tag: nothing from here on can be trusted.
  void doubt_from_here();

  /// What was read, without the calls that are doubted. Ends the use of this.
  [[nodiscard]] ReadBlock close();

 private:
  void drop_text_of_block();
  void drop_doubtful_calls();

  std::vector<Markup> stretches_;
  std::size_t next_ = 0;
  bool cut_;
  ReadBlock read_;
  bool is_in_block_ = false;
  std::optional<std::size_t> first_in_block_, end_of_block_;   ///< items between the block's own tags
  std::optional<std::size_t> first_implied_, first_doubtful_;  ///< items
  bool is_surplus_ = false;
  bool is_after_implied_end_ = false;
};

}  // namespace baleen
