/// What the collectives share. They are operations like any other: a forward pass calls them where ranks need
/// what others have, and not at all where there is one rank. What they move is in `messages`; they have no
/// cost beside it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/rank_group.h"
#include "numeric/dtype.h"
#include "ops/operation/argument_bytes.h"
#include "ops/operation/variant.h"
#include "tensor/activations.h"

namespace baleen {

/// Rows [begin, end) of an array; of a rank that has none, empty.
struct RowRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  [[nodiscard]] std::int64_t size() const { return end - begin; }
  bool operator==(const RowRange&) const = default;
};

/// Throws `Error` where the context has no communicator.
[[nodiscard]] Communicator& communicator_of(const CpuContext& context, std::string_view operation);

}  // namespace baleen
