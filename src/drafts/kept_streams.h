/// The residual streams of the last positions of every sequence: what a draft head will want of them.
#pragma once

#include <cstdint>

#include "tensor/activations.h"

namespace baleen {

/// Position p of a slot lies in row p mod rows. A view of memory that it does not own.
class KeptStreams {
 public:
  KeptStreams() = default;
  /// streams: [slots x rows, n d]. A step that is taken back leaves the stream before it in place when it had
  /// at most rows - 1 tokens.
  KeptStreams(Activations<2> streams, std::int64_t rows) : streams_(streams), rows_(rows) {}

  [[nodiscard]] const Activations<2>& streams() const { return streams_; }
  [[nodiscard]] std::int32_t row(std::int64_t slot, std::int64_t position) const {
    return static_cast<std::int32_t>(slot * rows_ + position % rows_);
  }
  [[nodiscard]] std::int64_t rows() const { return rows_; }

 private:
  Activations<2> streams_;
  std::int64_t rows_ = 0;
};

}  // namespace baleen
