#include "model/forward_buffers.h"

#include <array>
#include <type_traits>

namespace baleen {
namespace {

/// Calls place(view, extents) for every buffer: once to add up bytes, once to allocate.
template <class Buffers, class Place>
void lay_out(Buffers& b, const ModelConfig& c, std::int64_t rows, Place place) {
  const auto matrix = [&](auto& view, std::int64_t width) {
    place(view, std::array<std::int64_t, 2>{rows, width});
  };
  const std::array<std::int64_t, 3> streams{rows, c.hc_mult, c.hidden_size};
  place(b.streams, streams);
  place(b.mtp_streams, streams);
  matrix(b.u, c.hidden_size);
  matrix(b.f, c.hidden_size);
  matrix(b.post, c.hc_mult);
  place(b.comb, std::array<std::int64_t, 3>{rows, c.hc_mult, c.hc_mult});
  matrix(b.q_latent, c.q_lora_rank);
  matrix(b.q, c.q_dim());
  matrix(b.kv, c.head_dim);
  matrix(b.attended, c.q_dim());
  matrix(b.grouped, c.o_dim());
  matrix(b.main_kv, 2 * c.head_dim);
  matrix(b.main_gate, 2 * c.head_dim);
  matrix(b.index_kv, 2 * c.index_head_dim);
  matrix(b.index_gate, 2 * c.index_head_dim);
  matrix(b.index_q, c.index_q_dim());
  matrix(b.index_weights, c.index_n_heads);
  matrix(b.selected, c.index_topk);
  matrix(b.router_logits, c.n_routed_experts);
  matrix(b.expert_ids, c.num_experts_per_tok);
  matrix(b.expert_weights, c.num_experts_per_tok);
  for (int variant = 0; variant < 2; ++variant) {
    matrix(b.cosine[variant], c.qk_rope_head_dim / 2);
    matrix(b.sine[variant], c.qk_rope_head_dim / 2);
  }
}

std::int64_t element_count(const auto& extents) {
  std::int64_t count = 1;
  for (const std::int64_t extent : extents) count *= extent;
  return count;
}

}  // namespace

ForwardBuffers::ForwardBuffers(const ModelConfig& config, std::int64_t max_rows, Arena& arena) {
  lay_out(*this, config, max_rows, [&](auto& view, const auto& extents) {
    using Element = std::remove_pointer_t<decltype(view.data())>;
    view = {arena.allocate<Element>(element_count(extents)), extents};
  });
}

std::int64_t forward_buffer_bytes(const ModelConfig& config, std::int64_t max_rows) {
  ForwardBuffers shapes;
  std::int64_t bytes = 0;
  lay_out(shapes, config, max_rows, [&](auto& view, const auto& extents) {
    bytes += Arena::bytes_for<std::remove_pointer_t<decltype(view.data())>>(element_count(extents));
  });
  return bytes;
}

}  // namespace baleen
