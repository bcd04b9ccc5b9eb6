#include "trainer/graph/plain_residual.h"

#include "ops/rms_norm/rms_norm_backward.h"

namespace baleen::graph {

template <class T>
void plain_site_forward(const GraphContext<T>& context, const SiteRows& w, const T* x,
                        SiteActivations<T>& a) {
  const std::int64_t d = context.config.hidden_size;
  context.norm(context.tokens(), d, x, w.norm, resized(a.normed, context.tokens() * d));
}

template <class T>
void plain_site_backward(const GraphContext<T>& context, const SiteRows& w, const T* x, const T* dnormed,
                         T* dx) {
  const std::int64_t d = context.config.hidden_size;
  sum_over_rows<T>(context.pool, context.tokens(), d, context.gradient(w.norm),
                   [&](std::int64_t row, std::int64_t rows, T* partial) {
                     rms_norm_backward<T>(context.norm_of(rows, d, x + row * d, w.norm), dnormed + row * d,
                                          dx + row * d, partial);
                   });
}

template <class T>
void plain_leave(const GraphContext<T>& context, const T* x, const T* f, T* out) {
  const std::int64_t d = context.config.hidden_size;
  if (context.record() != nullptr) {
    const auto values = static_cast<double>(context.tokens() * d);
    const OpCost sum{.scalar_ops = values, .read_bytes = 8 * values, .write_bytes = 4 * values};
    context.record()->add("residual", "", context.tokens(), sum, sum);
  }
  for_row_blocks(context.pool, context.tokens(), [&](std::int64_t row, std::int64_t rows) {
    for (std::int64_t i = row * d; i < (row + rows) * d; ++i) out[i] = x[i] + f[i];
    context.rounding.result(rows, d, out + row * d);
  });
}

template <class T>
void plain_leave_backward(const GraphContext<T>& context, const T* dout, T* dx, T* df) {
  const std::int64_t d = context.config.hidden_size;
  for_row_blocks(context.pool, context.tokens(), [&](std::int64_t row, std::int64_t rows) {
    for (std::int64_t i = row * d; i < (row + rows) * d; ++i) {
      dx[i] += dout[i];
      df[i] += dout[i];
    }
  });
}

template void plain_site_forward(const GraphContext<float>&, const SiteRows&, const float*,
                                 SiteActivations<float>&);
template void plain_site_forward(const GraphContext<double>&, const SiteRows&, const double*,
                                 SiteActivations<double>&);
template void plain_site_backward(const GraphContext<float>&, const SiteRows&, const float*, const float*,
                                  float*);
template void plain_site_backward(const GraphContext<double>&, const SiteRows&, const double*, const double*,
                                  double*);
template void plain_leave(const GraphContext<float>&, const float*, const float*, float*);
template void plain_leave(const GraphContext<double>&, const double*, const double*, double*);
template void plain_leave_backward(const GraphContext<float>&, const float*, float*, float*);
template void plain_leave_backward(const GraphContext<double>&, const double*, double*, double*);

}  // namespace baleen::graph
