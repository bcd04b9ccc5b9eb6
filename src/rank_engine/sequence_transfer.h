/// A part of a sequence's state that one data-parallel group sends to another.
#pragma once

#include <cstdint>

#include "engine/step_engine.h"

namespace baleen {

/// Pages [first_page, end / 256) on the way; with `last`, all others up to `end` and what else the sequence
/// has: its tokens, window pages, compressor rings and streams. The receiving group has it open too.
struct SequenceTransfer {
  std::int64_t from_group = 0, to_group = 0;
  SequenceId sent{}, received{};  ///< as either group numbers it
  std::int64_t known_pages = 0;   ///< the first ones: in the receiver's prefix cache
  std::int64_t first_page = 0;
  std::int64_t end = 0;  ///< position
  bool last = false;
  bool operator==(const SequenceTransfer&) const = default;
};

}  // namespace baleen
