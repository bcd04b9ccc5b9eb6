#include "trainer/graph/mtp.h"

#include "ops/linear/linear_backward.h"
#include "ops/mtp_combine/mtp_combine.h"
#include "ops/rms_norm/rms_norm_backward.h"

namespace baleen::graph {

MtpBatch::MtpBatch(const TrainingBatch& main) {
  batch.num_global_targets = main.num_global_targets;
  batch.num_global_tokens = main.num_global_tokens;
  batch.num_global_documents = main.num_global_documents;
  for (const TrainingBatch::Document& document : main.documents) {
    const std::int64_t begin = batch.num_tokens();
    for (std::int64_t i = document.begin; i + 1 < document.end; ++i) {
      rows.push_back(i);
      batch.tokens.push_back(main.tokens[static_cast<std::size_t>(i) + 1]);
      batch.is_target.push_back(main.is_target[static_cast<std::size_t>(i) + 1]);
    }
    if (batch.num_tokens() > begin) batch.documents.push_back({begin, batch.num_tokens()});
  }
}

template <class T>
void mtp_entry_forward(const GraphContext<T>& context, const MtpBatch& batch, const DraftBlockRows& w,
                       TensorRow embedding, const T* x, MtpActivations<T>& a, T* y) {
  const ModelConfig& config = context.config;
  const std::int64_t d = config.hidden_size;
  const std::int64_t streams = config.hc_mult;
  const std::int64_t n = context.tokens();
  Values<T> term;
  resized(a.embedded, n * d);
  resized(a.embedded_normed, n * d);
  resized(a.streams, n * config.hc_dim());
  resized(a.streams_normed, n * config.hc_dim());
  const T* const embed = context.weight(embedding);
  for_row_blocks(context.pool, n, [&](std::int64_t begin, std::int64_t rows) {
    for (std::int64_t row = begin; row < begin + rows; ++row) {
      const auto at = static_cast<std::size_t>(row);
      std::copy_n(embed + context.batch.tokens[at] * d, d, a.embedded.data() + row * d);
      std::copy_n(x + batch.rows[at] * config.hc_dim(), config.hc_dim(),
                  a.streams.data() + row * config.hc_dim());
    }
  });
  context.norm(n, d, a.embedded.data(), w.vectors.at("enorm"), a.embedded_normed.data());
  context.norm(n * streams, d, a.streams.data(), w.vectors.at("hnorm"), a.streams_normed.data());
  context.round_inputs(config.dense_format, n, d, a.embedded_normed.data());
  context.round_inputs(config.dense_format, n * streams, d, a.streams_normed.data());
  context.linear("e_proj", n, d, d, a.embedded_normed.data(), w.matrices.at("e_proj"), resized(term, n * d));
  context.linear("h_proj", n * streams, d, d, a.streams_normed.data(), w.matrices.at("h_proj"), y);
  context.template run<ops::MtpCombine>(
      {.embedded = {term.data(), {n, d}}, .precision = context.precision(), .streams = {y, {n, streams, d}}});
}

template <class T>
void mtp_entry_backward(const GraphContext<T>& context, const MtpBatch& batch, const DraftBlockRows& w,
                        TensorRow embedding, const MtpActivations<T>& a, const T* dy, T* dx) {
  const ModelConfig& config = context.config;
  const std::int64_t d = config.hidden_size;
  const std::int64_t streams = config.hc_mult;
  const std::int64_t n = context.tokens();
  Values<T> dterm;
  Values<T> dembedded_normed;
  Values<T> dembedded;
  Values<T> dstreams_normed;
  Values<T> dstreams;
  zeros(dterm, n * d);
  for_row_blocks(context.pool, n, [&](std::int64_t begin, std::int64_t rows) {
    for (std::int64_t row = begin * streams; row < (begin + rows) * streams; ++row) {
      for (std::int64_t i = 0; i < d; ++i)
        dterm[static_cast<std::size_t>(row / streams * d + i)] += dy[row * d + i];
    }
  });
  context.linear_backward(context.linear_shape(n, d, d), a.embedded_normed.data(), w.matrices.at("e_proj"),
                          dterm.data(), zeros(dembedded_normed, n * d));
  context.linear_backward(context.linear_shape(n * streams, d, d), a.streams_normed.data(),
                          w.matrices.at("h_proj"), dy, zeros(dstreams_normed, n * config.hc_dim()));
  zeros(dembedded, n * d);
  zeros(dstreams, n * config.hc_dim());
  const TensorRow enorm = w.vectors.at("enorm"), hnorm = w.vectors.at("hnorm");
  sum_over_rows<T>(
      context.pool, n, d, context.gradient(enorm), [&](std::int64_t row, std::int64_t rows, T* partial) {
        rms_norm_backward<T>(context.norm_of(rows, d, a.embedded.data() + row * d, enorm),
                             dembedded_normed.data() + row * d, dembedded.data() + row * d, partial);
      });
  sum_over_rows<T>(context.pool, n * streams, d, context.gradient(hnorm),
                   [&](std::int64_t row, std::int64_t rows, T* partial) {
                     rms_norm_backward<T>(context.norm_of(rows, d, a.streams.data() + row * d, hnorm),
                                          dstreams_normed.data() + row * d, dstreams.data() + row * d,
                                          partial);
                   });
  for (std::int64_t row = 0; context.pool.compute() && row < n; ++row) {
    const auto at = static_cast<std::size_t>(row);
    T* de = context.gradient(embedding) + context.batch.tokens[at] * d;
    for (std::int64_t i = 0; i < d; ++i) de[i] += dembedded[static_cast<std::size_t>(row * d + i)];
    T* to = dx + batch.rows[at] * config.hc_dim();
    const T* from = dstreams.data() + row * config.hc_dim();
    for (std::int64_t i = 0; i < config.hc_dim(); ++i) to[i] += from[i];
  }
}

template void mtp_entry_forward(const GraphContext<float>&, const MtpBatch&, const DraftBlockRows&, TensorRow,
                                const float*, MtpActivations<float>&, float*);
template void mtp_entry_forward(const GraphContext<double>&, const MtpBatch&, const DraftBlockRows&,
                                TensorRow, const double*, MtpActivations<double>&, double*);
template void mtp_entry_backward(const GraphContext<float>&, const MtpBatch&, const DraftBlockRows&,
                                 TensorRow, const MtpActivations<float>&, const float*, float*);
template void mtp_entry_backward(const GraphContext<double>&, const MtpBatch&, const DraftBlockRows&,
                                 TensorRow, const MtpActivations<double>&, const double*, double*);

}  // namespace baleen::graph
