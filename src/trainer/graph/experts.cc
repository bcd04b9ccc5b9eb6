#include "trainer/graph/experts.h"

#include <algorithm>
#include <numeric>

#include "numeric/top_k_indices.h"
#include "ops/experts/experts.h"
#include "ops/experts/swiglu_backward.h"
#include "ops/linear/linear_backward.h"
#include "ops/route/route.h"
#include "ops/route/route_backward.h"
#include "ops/route/sequence_balance.h"

namespace baleen::graph {
namespace {

/// At most so many rows of an expert are one thread's.
constexpr std::int64_t kPartRows = 256;
/// Of an expert: w1, w2, w3.
constexpr std::int64_t kMatrices = 3;

template <class T>
class Experts {
 public:
  explicit Experts(const GraphContext<T>& context)
      : c_(context),
        n_(context.tokens()),
        d_(context.config.hidden_size),
        k_(context.config.num_experts_per_tok),
        num_experts_(context.config.n_routed_experts),
        width_(context.config.moe_intermediate_size) {}

  void forward(std::int64_t block, const MoeRows& w, const T* x, ExpertActivations<T>& a, T* out) const {
    c_.linear_f32("gate", n_, d_, num_experts_, x, w.gate, resized(a.logits, n_ * num_experts_));
    if (c_.record() != nullptr) note(w, a);
    const RecordedPause pause(c_.record());
    choose(block, w, a);
    a.balance_loss = has_balance_loss(w) ? balance_loss(a) : 0;
    assign_slots(a);
    gather(x, a);
    for (Values<T>* values : {&a.g, &a.v, &a.a}) resized(*values, n_ * k_ * width_);
    resized(a.y, n_ * k_ * d_);
    const std::vector<Rows> parts = parts_of(a);
    c_.pool.parallel_for(static_cast<std::int64_t>(parts.size()), [&](std::int64_t i, int) {
      forward_rows(parts[static_cast<std::size_t>(i)], w, a);
    });
    shared_forward(w, x, a, out);
    for_row_blocks(c_.pool, n_, [&](std::int64_t row, std::int64_t rows) {
      for (std::int64_t t = row; t < row + rows; ++t) combine(a, t, out + t * d_);
    });
  }

  void backward(const MoeRows& w, const T* x, const ExpertActivations<T>& a, const T* dout, T* dx) const {
    SlotGradients slots;
    zeros(slots.x, n_ * k_ * d_, c_.pool);
    zeros(slots.a, n_ * k_ * width_, c_.pool);
    zeros(slots.weight, n_ * k_);
    resized(slots.y, n_ * k_ * d_);
    for (Values<T>* values : {&slots.g, &slots.v}) resized(*values, n_ * k_ * width_);
    const std::vector<Rows> parts = parts_of(a);
    c_.pool.parallel_for(static_cast<std::int64_t>(parts.size()), [&](std::int64_t i, int) {
      backward_rows(parts[static_cast<std::size_t>(i)], w, a, dout, slots);
    });
    c_.pool.parallel_for(num_experts_ * kMatrices, [&](std::int64_t i, int) {
      weight_gradient(i / kMatrices, i % kMatrices, w, a, slots);
    });
    for_row_blocks(c_.pool, n_, [&](std::int64_t row, std::int64_t rows) {
      for (std::int64_t i = row * k_; i < (row + rows) * k_; ++i) {
        const T* from = slots.x.data() + a.slot_of[static_cast<std::size_t>(i)] * d_;
        T* to = dx + i / k_ * d_;
        for (std::int64_t at = 0; at < d_; ++at) to[at] += from[at];
      }
    });
    shared_backward(w, x, a, dout, dx);
    router_backward(w, x, a, slots.weight, dx);
  }

 private:
  /// Router and experts as operations, with the load that routing without preferences gives. What they are
  /// made of is not noted.
  void note(const MoeRows& w, const ExpertActivations<T>& a) const {
    if constexpr (std::is_same_v<T, float>) {
      const View<std::int32_t, 2> ids(nullptr, {n_, k_});
      const Activations<2> logits(const_cast<float*>(a.logits.data()), {n_, num_experts_});
      const Activations<2> weights(logits.data(), {n_, k_}), tokens(logits.data(), {n_, d_});
      c_.executors.exact.template execute<ops::Route>({.logits = logits, .ids = ids, .weights = weights});
      if (has_balance_loss(w)) {
        OpCost forward, backward;
        for (std::int64_t i = 0; i < c_.documents(); ++i) {
          forward += sequence_balance_cost(of_document(a, i));
          backward += sequence_balance_backward_cost(of_document(a, i));
        }
        c_.record()->add("sequence_balance", "", n_, forward, backward);
      }
      const ExpertWeights expert{.w1 = float_matrix(width_, d_, nullptr),
                                 .w2 = float_matrix(d_, width_, nullptr),
                                 .w3 = float_matrix(width_, d_, nullptr)};
      const std::vector<ExpertWeights> routed(static_cast<std::size_t>(num_experts_), expert);
      c_.executors.products.template execute<ops::Experts>({.x = tokens,
                                                            .ids = ids,
                                                            .weights = weights,
                                                            .routed = routed,
                                                            .shared = &expert,
                                                            .precision = Precision::kExact,
                                                            .out = tokens});
    }
  }

  [[nodiscard]] float swiglu_limit() const { return static_cast<float>(c_.config.swiglu_limit); }
  [[nodiscard]] int top_k() const { return static_cast<int>(k_); }

  /// Hash layers have no bias, and none of it.
  [[nodiscard]] bool has_balance_loss(const MoeRows& w) const {
    return w.bias.exists() && c_.balance_scale != 0;
  }
  [[nodiscard]] SequenceBalanceValues<T> of_document(const ExpertActivations<T>& a, std::int64_t i) const {
    const TrainingBatch::Document& document = c_.document(i);
    return {.tokens = document.end - document.begin,
            .experts = num_experts_,
            .k = k_,
            .z = a.logits.data() + document.begin * num_experts_};
  }
  double balance_loss(const ExpertActivations<T>& a) const {
    std::vector<double> losses(static_cast<std::size_t>(c_.documents()));
    c_.pool.parallel_for(c_.documents(), [&](std::int64_t i, int) {
      losses[static_cast<std::size_t>(i)] = sequence_balance_forward(of_document(a, i));
    });
    return std::accumulate(losses.begin(), losses.end(), 0.0);
  }

  /// Ids and weights of each token.
  void choose(std::int64_t block, const MoeRows& w, ExpertActivations<T>& a) const {
    resized(a.ids, n_ * k_);
    resized(a.weights, n_ * k_);
    const T* const bias = c_.weight(w.bias);
    for_row_blocks(c_.pool, n_, [&](std::int64_t row, std::int64_t rows) {
      for (std::int64_t t = row; t < row + rows; ++t) {
        std::int32_t* ids = a.ids.data() + t * k_;
        const T* z = a.logits.data() + t * num_experts_;
        if (c_.config.is_hash_routed(block)) {
          const std::int64_t token = c_.batch.tokens[static_cast<std::size_t>(t)];
          const std::int64_t* from =
              c_.token_tables.experts[static_cast<std::size_t>(block)].data() + token * k_;
          std::copy(from, from + k_, ids);
        } else {
          choose_best(z, bias, ids);
        }
        std::sort(ids, ids + k_);
        route_weights(z, ids, top_k(), c_.config.routed_scaling_factor, a.weights.data() + t * k_);
      }
    });
  }

  /// The k largest of score + bias, the smaller id on ties.
  void choose_best(const T* z, const T* bias, std::int32_t* ids) const {
    std::vector<T> keys(static_cast<std::size_t>(num_experts_));
    for (std::size_t e = 0; e < keys.size(); ++e) keys[e] = route_score(z[e]) + bias[e];
    std::ranges::copy(top_k_indices<T>(keys, k_), ids);
  }

  void assign_slots(ExpertActivations<T>& a) const {
    a.slot_begin.assign(static_cast<std::size_t>(num_experts_) + 1, 0);
    resized(a.slot_of, n_ * k_);
    resized(a.slot_token, n_ * k_);
    resized(a.slot_weight, n_ * k_);
    if (!c_.pool.compute()) return;
    for (const std::int32_t id : a.ids) ++a.slot_begin[static_cast<std::size_t>(id) + 1];
    std::partial_sum(a.slot_begin.begin(), a.slot_begin.end(), a.slot_begin.begin());
    std::vector<std::int64_t> next(a.slot_begin.begin(), a.slot_begin.end() - 1);
    for (std::size_t i = 0; i < a.ids.size(); ++i) {
      const std::int64_t slot = next[static_cast<std::size_t>(a.ids[i])]++;
      a.slot_of[i] = slot;
      a.slot_token[static_cast<std::size_t>(slot)] = static_cast<std::int64_t>(i) / k_;
      a.slot_weight[static_cast<std::size_t>(slot)] = a.weights[i];
    }
  }

  /// Copies row slot_token[s] of `from` to row s of `to`, for the slots [begin, end).
  void gather_rows(const ExpertActivations<T>& a, std::int64_t begin, std::int64_t end, const T* from,
                   T* to) const {
    for (std::int64_t slot = begin; slot < end; ++slot) {
      const T* row = from + a.slot_token[static_cast<std::size_t>(slot)] * d_;
      std::copy(row, row + d_, to + (slot - begin) * d_);
    }
  }

  void gather(const T* x, ExpertActivations<T>& a) const {
    resized(a.x, n_ * k_ * d_);
    for_row_blocks(c_.pool, n_ * k_, [&](std::int64_t slot, std::int64_t slots) {
      gather_rows(a, slot, slot + slots, x, a.x.data() + slot * d_);
      c_.rounding.input(c_.config.expert_format, slots, d_, a.x.data() + slot * d_);
    });
  }

  /// Rows of one expert that one thread computes.
  struct Rows {
    std::int64_t expert = 0, begin = 0, rows = 0;  ///< slots [begin, begin + rows)
  };

  /// Gradients of what the slots hold: of x and y [slots, d], of a, g and v [slots, width], of their weights.
  struct SlotGradients {
    Values<T> x, y, a, g, v, weight;
  };

  /// The slots in parts of one expert and of at most kPartRows, so that a loaded expert is not one thread's
  /// alone.
  [[nodiscard]] std::vector<Rows> parts_of(const ExpertActivations<T>& a) const {
    std::vector<Rows> parts;
    for (std::int64_t e = 0; e < num_experts_; ++e) {
      const std::int64_t end = a.slot_begin[static_cast<std::size_t>(e) + 1];
      for (std::int64_t begin = a.slot_begin[static_cast<std::size_t>(e)]; begin < end; begin += kPartRows)
        parts.push_back({e, begin, std::min(kPartRows, end - begin)});
    }
    return parts;
  }

  void forward_rows(const Rows& part, const MoeRows& w, ExpertActivations<T>& a) const {
    const RowLeaves::Expert& expert = w.routed[static_cast<std::size_t>(part.expert)];
    const T* x = a.x.data() + part.begin * d_;
    const std::int64_t at = part.begin * width_;
    dense_linear<T>(c_.linear_shape(part.rows, d_, width_), x, c_.weight(expert.w1), a.g.data() + at);
    dense_linear<T>(c_.linear_shape(part.rows, d_, width_), x, c_.weight(expert.w3), a.v.data() + at);
    c_.rounding.result(part.rows, width_, a.g.data() + at);
    c_.rounding.result(part.rows, width_, a.v.data() + at);
    activate(c_.config.expert_format, part.rows, a.g.data() + at, a.v.data() + at,
             a.slot_weight.data() + part.begin, a.a.data() + at);
    dense_linear<T>(c_.linear_shape(part.rows, width_, d_), a.a.data() + at, c_.weight(expert.w2),
                    a.y.data() + part.begin * d_);
    c_.rounding.result(part.rows, d_, a.y.data() + part.begin * d_);
  }

  /// a = swiglu of g and v, as w2 in `format` multiplies it.
  void activate(WeightFormat format, std::int64_t rows, const T* g, const T* v, const T* slot_weight,
                T* a) const {
    swiglu_forward<T>(rows, width_, g, v, slot_weight, swiglu_limit(), c_.rounding.active(), a);
    c_.rounding.input(format, rows, width_, a);
  }

  /// Gradients of the rows; those of the weights need all rows of an expert.
  void backward_rows(const Rows& part, const MoeRows& w, const ExpertActivations<T>& a, const T* dout,
                     SlotGradients& slots) const {
    const RowLeaves::Expert& expert = w.routed[static_cast<std::size_t>(part.expert)];
    const std::int64_t at = part.begin * width_;
    T* dy = slots.y.data() + part.begin * d_;
    T* dx = slots.x.data() + part.begin * d_;
    T* da = slots.a.data() + at;
    T* dg = slots.g.data() + at;
    T* dv = slots.v.data() + at;
    gather_rows(a, part.begin, part.begin + part.rows, dout, dy);
    linear_backward<T>(c_.linear_shape(part.rows, width_, d_), nullptr, c_.weight(expert.w2), dy, da,
                       nullptr);
    swiglu_backward<T>(part.rows, width_, a.g.data() + at, a.v.data() + at, a.slot_weight.data() + part.begin,
                       swiglu_limit(), da, dg, dv, slots.weight.data() + part.begin);
    linear_backward<T>(c_.linear_shape(part.rows, d_, width_), nullptr, c_.weight(expert.w1), dg, dx,
                       nullptr);
    linear_backward<T>(c_.linear_shape(part.rows, d_, width_), nullptr, c_.weight(expert.w3), dv, dx,
                       nullptr);
  }

  /// Of w1, w2 or w3 (`matrix` 0, 1, 2) of expert e.
  void weight_gradient(std::int64_t e, std::int64_t matrix, const MoeRows& w, const ExpertActivations<T>& a,
                       const SlotGradients& slots) const {
    const std::int64_t begin = a.slot_begin[static_cast<std::size_t>(e)];
    const std::int64_t rows = a.slot_begin[static_cast<std::size_t>(e) + 1] - begin;
    if (rows == 0) return;
    const RowLeaves::Expert& expert = w.routed[static_cast<std::size_t>(e)];
    const LinearShape up = c_.linear_shape(rows, d_, width_);
    const LinearShape down = c_.linear_shape(rows, width_, d_);
    const T* x = a.x.data() + begin * d_;
    const std::int64_t at = begin * width_;
    if (matrix == 0) linear_backward<T>(up, x, nullptr, slots.g.data() + at, nullptr, c_.gradient(expert.w1));
    if (matrix == 1)
      linear_backward<T>(down, a.a.data() + at, nullptr, slots.y.data() + begin * d_, nullptr,
                         c_.gradient(expert.w2));
    if (matrix == 2) linear_backward<T>(up, x, nullptr, slots.v.data() + at, nullptr, c_.gradient(expert.w3));
  }

  /// out = Σ over the token's experts of y, then + out, which holds the shared expert's result.
  void combine(const ExpertActivations<T>& a, std::int64_t token, T* out) const {
    for (std::int64_t at = 0; at < d_; ++at) {
      T sum = 0;
      for (std::int64_t i = token * k_; i < (token + 1) * k_; ++i)
        sum += a.y[static_cast<std::size_t>(a.slot_of[static_cast<std::size_t>(i)] * d_ + at)];
      out[at] = sum + out[at];
    }
    c_.rounding.result(1, d_, out);
  }

  void shared_forward(const MoeRows& w, const T* x, ExpertActivations<T>& a, T* out) const {
    const T* in = c_.rounded_input(c_.config.dense_format, x, a.x_rounded);
    c_.linear("shared.w1", n_, d_, width_, in, w.shared.w1, resized(a.shared_g, n_ * width_));
    c_.linear("shared.w3", n_, d_, width_, in, w.shared.w3, resized(a.shared_v, n_ * width_));
    resized(a.shared_a, n_ * width_);
    for_row_blocks(c_.pool, n_, [&](std::int64_t row, std::int64_t rows) {
      const std::int64_t at = row * width_;
      activate(c_.config.dense_format, rows, a.shared_g.data() + at, a.shared_v.data() + at, nullptr,
               a.shared_a.data() + at);
    });
    c_.linear("shared.w2", n_, width_, d_, a.shared_a.data(), w.shared.w2, out);
  }

  void shared_backward(const MoeRows& w, const T* x, const ExpertActivations<T>& a, const T* dout,
                       T* dx) const {
    Values<T> da;
    Values<T> dg;
    Values<T> dv;
    zeros(da, n_ * width_);
    resized(dg, n_ * width_);
    resized(dv, n_ * width_);
    c_.linear_backward(c_.linear_shape(n_, width_, d_), a.shared_a.data(), w.shared.w2, dout, da.data());
    for_row_blocks(c_.pool, n_, [&](std::int64_t row, std::int64_t rows) {
      const std::int64_t at = row * width_;
      swiglu_backward<T>(rows, width_, a.shared_g.data() + at, a.shared_v.data() + at, nullptr,
                         swiglu_limit(), da.data() + at, dg.data() + at, dv.data() + at, nullptr);
    });
    const T* in = c_.rounding.rounds_inputs(c_.config.dense_format) ? a.x_rounded.data() : x;
    c_.linear_backward(c_.linear_shape(n_, d_, width_), in, w.shared.w1, dg.data(), dx);
    c_.linear_backward(c_.linear_shape(n_, d_, width_), in, w.shared.w3, dv.data(), dx);
  }

  void router_backward(const MoeRows& w, const T* x, const ExpertActivations<T>& a,
                       const Values<T>& dslot_weight, T* dx) const {
    Values<T> dlogits;
    zeros(dlogits, n_ * num_experts_);
    for_row_blocks(c_.pool, n_, [&](std::int64_t row, std::int64_t rows) {
      std::vector<T> dweights(static_cast<std::size_t>(k_));
      for (std::int64_t t = row; t < row + rows; ++t) {
        for (std::int64_t i = 0; i < k_; ++i) {
          const auto slot = static_cast<std::size_t>(a.slot_of[static_cast<std::size_t>(t * k_ + i)]);
          dweights[static_cast<std::size_t>(i)] = dslot_weight[slot];
        }
        route_backward(a.logits.data() + t * num_experts_, a.ids.data() + t * k_, top_k(),
                       c_.config.routed_scaling_factor, dweights.data(), dlogits.data() + t * num_experts_);
      }
    });
    if (has_balance_loss(w)) {
      c_.pool.parallel_for(c_.documents(), [&](std::int64_t i, int) {
        sequence_balance_backward(of_document(a, i), c_.balance_scale,
                                  dlogits.data() + c_.document(i).begin * num_experts_);
      });
    }
    c_.linear_backward({n_, d_, num_experts_}, x, w.gate, dlogits.data(), dx);
  }

  const GraphContext<T>& c_;
  std::int64_t n_, d_, k_, num_experts_;
  std::int64_t width_;  ///< width of an expert, the shared one included
};

}  // namespace

template <class T>
void experts_forward(const GraphContext<T>& context, std::int64_t block, const MoeRows& w, const T* x,
                     ExpertActivations<T>& a, T* out) {
  Experts<T>(context).forward(block, w, x, a, out);
}

template <class T>
void experts_backward(const GraphContext<T>& context, const MoeRows& w, const T* x,
                      const ExpertActivations<T>& a, const T* dout, T* dx) {
  Experts<T>(context).backward(w, x, a, dout, dx);
}

template void experts_forward(const GraphContext<float>&, std::int64_t, const MoeRows&, const float*,
                              ExpertActivations<float>&, float*);
template void experts_forward(const GraphContext<double>&, std::int64_t, const MoeRows&, const double*,
                              ExpertActivations<double>&, double*);
template void experts_backward(const GraphContext<float>&, const MoeRows&, const float*,
                               const ExpertActivations<float>&, const float*, float*);
template void experts_backward(const GraphContext<double>&, const MoeRows&, const double*,
                               const ExpertActivations<double>&, const double*, double*);

}  // namespace baleen::graph
