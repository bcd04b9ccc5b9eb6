/// A tool-call block within reasoning: a call that the model forgot to close its reasoning for, or a thought about one.
#pragma once

#include <utility>
#include <vector>

#include "chat/markup.h"

namespace baleen {

/// Decided by what follows: a call ends the reply. Holds what it is fed until then.
class DraftedBlock {
 public:
  enum class Verdict { kOpen, kThought };

  /// From the opening tag on. `is_declared`: whether the tag is no invoke or one of a declared tool.
  Verdict add(Markup stretch, bool is_declared);
  /// Whether the block would be a call if the reply ended here by the model's will.
  [[nodiscard]] bool is_whole() const { return is_whole_; }
  /// Everything that was fed, in order.
  [[nodiscard]] std::vector<Markup> take() { return std::move(stretches_); }

 private:
  [[nodiscard]] bool fits(const Markup& stretch, bool is_declared) const;

  std::vector<Markup> stretches_;
  bool is_in_value_ = false;
  bool is_whole_ = false;   ///< nothing but white space since an invoke or the block was closed
  bool is_closed_ = false;  ///< the block was
};

}  // namespace baleen
