#include "forward/forward_buffers.h"

#include <algorithm>

#include "base/check.h"
#include "numeric/block_scale.h"

namespace baleen {
namespace {

constexpr std::int64_t kScaleRows = 4;  // scale strides are multiples of it

/// Adds up bytes, or allocates as many: one order for both, so that a plan is what will be taken.
class Layout {
 public:
  Layout(const ModelConfig& config, std::int64_t max_rows, ElementType type, Arena* arena)
      : config_(config), rows_(max_rows), type_(type), arena_(arena) {}

  void place(ForwardBuffers& b) {
    const ModelConfig& c = config_;
    values(b.streams, c.hc_mult, c.hidden_size);
    values(b.draft_streams, c.hc_mult, c.hidden_size);
    place(b.block);
    b.entry_streams = b.streams;
    b.entry_values = b.head_entered = b.head_u = b.block.attention.u;
    for (int variant = 0; variant < 2; ++variant) {
      floats(b.cosine[variant], c.qk_rope_head_dim / 2);
      floats(b.sine[variant], c.qk_rope_head_dim / 2);
      b.frequencies[variant] = take<float>(c.qk_rope_head_dim / 2);
    }
    b.expert_load = take<std::int64_t>(c.num_blocks() * c.n_routed_experts);
  }

  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

 private:
  void place(BlockValues& b) {
    const ModelConfig& c = config_;
    place(b.attention);
    b.experts = b.attention;
    changed_in_place(b.q_down, b.q_latent, c.q_lora_rank);
    fp8(b.q_latent_fp8, c.q_lora_rank);
    changed_in_place(b.q_up, b.q, c.q_dim());
    values(b.kv, c.head_dim);
    values(b.attended, c.q_dim());
    values(b.grouped, c.o_dim());
    floats(b.main_kv, 2 * c.head_dim);
    floats(b.main_gate, 2 * c.head_dim);
    floats(b.index_kv, 2 * c.index_head_dim);
    floats(b.index_gate, 2 * c.index_head_dim);
    values(b.index_q, c.index_q_dim());
    values(b.index_weights, c.index_n_heads);
    integers(b.selected, c.index_topk);
    floats(b.router_logits, c.n_routed_experts);
    integers(b.expert_ids, c.num_experts_per_tok);
    floats(b.expert_weights, c.num_experts_per_tok);
  }

  void place(HalfBlockValues& h) {
    const ModelConfig& c = config_;
    changed_in_place(h.entered, h.u, c.hidden_size);
    fp8(h.u_fp8, c.hidden_size);
    values(h.f, c.hidden_size);
    floats(h.post, c.hc_mult);
    activations(h.comb, ElementType::kF32, {rows_, c.hc_mult, c.hc_mult});
  }

  void changed_in_place(Activations<2>& before, Activations<2>& after, std::int64_t width) {
    values(before, width);
    after = before;
  }

  template <class T>
  T* take(std::int64_t count) {
    bytes_ += Arena::bytes_for<T>(count);
    return arena_ == nullptr ? nullptr : arena_->allocate<T>(count);
  }

  template <int Rank>
  void activations(Activations<Rank>& view, ElementType type, const std::array<std::int64_t, Rank>& extents) {
    std::int64_t count = 1;
    for (const std::int64_t extent : extents) count *= extent;
    view = {take<std::byte>(count * size_of(type)), type, extents};
  }
  void values(Activations<2>& view, std::int64_t width) { activations<2>(view, type_, {rows_, width}); }
  void values(Activations<3>& view, std::int64_t count, std::int64_t width) {
    activations<3>(view, type_, {rows_, count, width});
  }
  void floats(Activations<2>& view, std::int64_t width) {
    activations<2>(view, ElementType::kF32, {rows_, width});
  }
  void integers(View<std::int32_t, 2>& view, std::int64_t width) {
    view = {take<std::int32_t>(rows_ * width), {rows_, width}};
  }
  void fp8(Fp8Rows& rows, std::int64_t width) {
    if (type_ != ElementType::kBf16) return;
    rows.codes = take<std::uint8_t>(rows_ * width);
    rows.scale_stride = (rows_ + kScaleRows - 1) / kScaleRows * kScaleRows;
    rows.scales = take<float>(width / kActivationBlock * rows.scale_stride);
  }

  const ModelConfig& config_;
  std::int64_t rows_;
  ElementType type_;
  Arena* arena_;  ///< null: only add up
  std::int64_t bytes_ = 0;
};

template <int Rank>
void drop_rows(Activations<Rank>& view, std::int64_t first) {
  view = view.slice(first, view.extent(0));
}
void drop_rows(View<std::int32_t, 2>& view, std::int64_t first) {
  view = {view.data() + first * view.extent(1), {view.extent(0) - first, view.extent(1)}};
}
void drop_rows(Fp8Rows& rows, std::int64_t first, std::int64_t width) {
  if (!rows) return;
  rows.codes += first * width;
  rows.scales += first;
}

void drop_rows(BlockValues& b, std::int64_t first, const ModelConfig& config) {
  for (HalfBlockValues* half : {&b.attention, &b.experts}) {
    for (Activations<2>* view : {&half->entered, &half->u, &half->f, &half->post}) drop_rows(*view, first);
    drop_rows(half->comb, first);
    drop_rows(half->u_fp8, first, config.hidden_size);
  }
  for (Activations<2>* view :
       {&b.q_down, &b.q_latent, &b.q_up, &b.q, &b.kv, &b.attended, &b.grouped, &b.main_kv, &b.main_gate,
        &b.index_kv, &b.index_gate, &b.index_q, &b.index_weights, &b.router_logits, &b.expert_weights})
    drop_rows(*view, first);
  drop_rows(b.q_latent_fp8, first, config.q_lora_rank);
  drop_rows(b.selected, first);
  drop_rows(b.expert_ids, first);
}

}  // namespace

ForwardBuffers ForwardBuffers::from_row(const ModelConfig& config, std::int64_t first) const {
  BALEEN_CHECK(first % kScaleRows == 0);
  ForwardBuffers rest = *this;
  for (Activations<3>* view : {&rest.streams, &rest.draft_streams, &rest.entry_streams})
    drop_rows(*view, first);
  for (Activations<2>* view : {&rest.entry_values, &rest.head_entered, &rest.head_u, &rest.cosine[0],
                               &rest.cosine[1], &rest.sine[0], &rest.sine[1]})
    drop_rows(*view, first);
  drop_rows(rest.block, first, config);
  return rest;
}

ForwardBuffers::ForwardBuffers(const ModelConfig& config, std::int64_t max_rows, ElementType type,
                               Arena& arena) {
  Layout(config, max_rows, type, &arena).place(*this);
}

std::int64_t forward_buffer_bytes(const ModelConfig& config, std::int64_t max_rows, ElementType type) {
  ForwardBuffers shapes;
  Layout layout(config, max_rows, type, nullptr);
  layout.place(shapes);
  return layout.bytes();
}

}  // namespace baleen
