/// Rotation of queries, keys and entries by their positions in the document, of one layer's attention.
#pragma once

#include "ops/rope/rope_backward.h"
#include "trainer/graph/graph_context.h"

namespace baleen::graph {

/// x [N, heads, width], each row at its token's position.
template <class T>
void rotate_rows(const GraphContext<T>& context, const LayerAttention& shape, std::int64_t heads,
                 std::int64_t width, bool inverse, T* x) {
  const RopeTable<T>& rope = context.ropes[static_cast<int>(shape.rope)];
  const std::int64_t pairs = shape.rope_dim / 2;
  for_row_blocks(context.pool, context.tokens(), [&](std::int64_t row, std::int64_t rows) {
    rope_rotate(rows, heads, width, shape.rope_dim, rope.cosine.data() + row * pairs,
                rope.sine.data() + row * pairs, inverse, x + row * heads * width);
  });
}

/// The same in the forward: what comes out is a result.
template <class T>
void rotate_result(const GraphContext<T>& context, const LayerAttention& shape, std::int64_t heads,
                   std::int64_t width, bool inverse, T* x) {
  rotate_rows(context, shape, heads, width, inverse, x);
  context.round_results(context.tokens(), heads * width, x);
}

/// entries [count, width] of document i, each at the position of its first token.
template <class T>
void rotate_entries(const GraphContext<T>& context, const LayerAttention& shape, std::int64_t i,
                    std::int64_t count, std::int64_t width, bool inverse, T* entries) {
  const RopeTable<T>& rope = context.ropes[static_cast<int>(shape.rope)];
  const std::int64_t pairs = shape.rope_dim / 2;
  for (std::int64_t j = 0; j < count; ++j) {
    const std::int64_t row = (context.document(i).begin + j * shape.ratio) * pairs;
    rope_rotate<T>(1, 1, width, shape.rope_dim, rope.cosine.data() + row, rope.sine.data() + row, inverse,
                   entries + j * width);
  }
}

}  // namespace baleen::graph
