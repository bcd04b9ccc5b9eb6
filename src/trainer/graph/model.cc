#include "trainer/graph/model.h"

#include <numeric>

#include "base/check.h"
#include "base/error.h"
#include "model/weight_binding.h"
#include "ops/embed/embed.h"
#include "trainer/graph/block.h"
#include "trainer/graph/indexer.h"
#include "trainer/graph/mtp.h"
#include "trainer/graph/site.h"
#include "trainer/graph/token_loss.h"

namespace baleen {
namespace {

using namespace graph;

/// The streams before the first block: each token's embedding, n times.
template <class T>
void embed_forward(const GraphContext<T>& context, TensorRow embedding, T* x) {
  const std::int64_t d = context.config.hidden_size;
  if constexpr (std::is_same_v<T, float>) {
    if (context.record() != nullptr) {
      context.executors.exact.template execute<ops::Embed>(
          {.tokens = context.batch.tokens,
           .table = {nullptr, {context.config.vocab_size, d}},
           .out = {x, {context.tokens(), context.config.hc_mult, d}}});
    }
  }
  const T* const embed = context.weight(embedding);
  for_row_blocks(context.pool, context.tokens(), [&](std::int64_t begin, std::int64_t rows) {
    for (std::int64_t row = begin; row < begin + rows; ++row) {
      const T* from = embed + context.batch.tokens[static_cast<std::size_t>(row)] * d;
      for (std::int64_t stream = 0; stream < context.config.hc_mult; ++stream)
        std::copy_n(from, d, x + row * context.config.hc_dim() + stream * d);
    }
  });
}

/// Threads take columns: rows of one token are summed in their order.
template <class T>
void embed_backward(const GraphContext<T>& context, const T* dx, TensorRow embedding) {
  constexpr std::int64_t kColumns = 64;
  const std::int64_t d = context.config.hidden_size;
  T* const dembed = context.gradient(embedding);
  context.pool.parallel_for((d + kColumns - 1) / kColumns, [&](std::int64_t part, int) {
    const std::int64_t begin = part * kColumns;
    const std::int64_t columns = std::min(kColumns, d - begin);
    for (std::int64_t row = 0; row < context.tokens(); ++row) {
      T* to = dembed + context.batch.tokens[static_cast<std::size_t>(row)] * d + begin;
      const T* from = dx + row * context.config.hc_dim() + begin;
      for (std::int64_t stream = 0; stream < context.config.hc_mult; ++stream)
        for (std::int64_t i = 0; i < columns; ++i) to[i] += from[stream * d + i];
    }
  });
}

/// One forward, and where gradients are wanted one backward, of one batch.
template <class T>
class Pass {
 public:
  /// Without `weights` the pass is written down by its executors, which `threads` are none for.
  Pass(const ModelConfig& config, const HashTables& tables, PassThreads threads, PassExecutors executors,
       const TrainingBatch& batch, const PassOptions& options, const std::vector<TensorSpec>& table,
       const PassParameters<T>& parameters, bool has_gradients)
      : config_(config),
        options_(options),
        executors_(executors),
        context_(config, tables, batch, options, executors_, threads, parameters),
        w_(bind_rows(config, table)),
        has_gradients_(has_gradients && !options.indexers_alone),
        indexers_learn_alone_(has_gradients && options.indexers_alone),
        batch_(batch) {
    BALEEN_CHECK(!options.plain_residual || config.hc_mult == 1);
    indexer_losses_.resize(static_cast<std::size_t>(config.num_blocks()));
    balance_losses_.resize(static_cast<std::size_t>(config.num_blocks()));
    report_.expert_load.assign(static_cast<std::size_t>(config.num_blocks()),
                               std::vector<std::int64_t>(static_cast<std::size_t>(config.n_routed_experts)));
    blocks_.resize(keeps() ? static_cast<std::size_t>(config.num_hidden_layers) : 1);
  }

  void forward() {
    context_.enter(ModelPart::kMixing, -1);
    streams_.resize(1);
    embed_forward(context_, w_.embedding, resized(streams_[0], size(context_)));
    for (std::int64_t block = 0; block < config_.num_hidden_layers; ++block) {
      Values<T> out;
      run_block(context_, block, streams_.back(), of_block(block), out);
      if (!has_gradients_) streams_.clear();
      streams_.push_back(std::move(out));
    }
  }

  /// [N, V], or of the MTP block [N', V].
  std::vector<T> logits(LogitsOf of) {
    forward();
    if (of == LogitsOf::kMain) return head_logits(context_, main_site(), streams_.back());
    const MtpBatch batch(batch_);
    const GraphContext<T> context(config_, context_.hash_tables, batch.batch, options_, executors_,
                                  context_.pool, context_.parameters);
    MtpValues values;
    mtp_forward(context, batch, values);
    return head_logits(context, mtp_site(), values.out);
  }

  /// [targets, d]
  std::vector<T> head_inputs() {
    forward();
    SiteActivations<T> a;
    site_forward(context_, SiteKind::kHead, main_site(), streams_.back().data(), a);
    const Targets targets = targets_of(batch_);
    const std::int64_t d = config_.hidden_size;
    std::vector<T> rows(static_cast<std::size_t>(targets.size() * d));
    for (std::size_t i = 0; i < targets.rows.size(); ++i)
      std::copy_n(a.normed.data() + targets.rows[i] * d, d, rows.data() + static_cast<std::int64_t>(i) * d);
    return rows;
  }

  LossReport run(TokenObjective<T>* objective) {
    CrossEntropy<T> cross_entropy;
    forward();
    if (context_.record() != nullptr) context_.record()->end_forward();
    Values<T> dx;
    if (has_gradients_) zeros(dx, size(context_), context_.pool);
    const Targets targets = targets_of(batch_);
    report_.num_targets = targets.size();
    context_.enter(ModelPart::kHead, -1);
    report_.loss_sum =
        token_loss(context_, main_site(), w_.head, streams_.back().data(), targets,
                   objective != nullptr ? *objective : cross_entropy, head_gradients(T{1}, dx));
    if (config_.num_nextn_predict_layers > 0 && options_.mtp_weight != 0) run_mtp(dx);
    if (has_gradients_) backward(dx);
    report_.indexer_loss_sum = std::accumulate(indexer_losses_.begin(), indexer_losses_.end(), 0.0);
    report_.balance_loss_sum = std::accumulate(balance_losses_.begin(), balance_losses_.end(), 0.0);
    return std::move(report_);
  }

 private:
  [[nodiscard]] bool keeps() const { return has_gradients_ && !options_.recompute; }
  [[nodiscard]] std::int64_t size(const GraphContext<T>& context) const {
    return context.tokens() * config_.hc_dim();
  }
  [[nodiscard]] SiteRows main_site() const { return {w_.hc_head, w_.norm}; }
  [[nodiscard]] SiteRows mtp_site() const {
    const DraftBlockRows& mtp = w_.drafts.back();
    return {options_.plain_residual ? MixingRows{} : mtp.mixings.at("hc_head"), mtp.vectors.at("norm")};
  }
  BlockActivations<T>& of_block(std::int64_t block) {
    return blocks_[keeps() ? static_cast<std::size_t>(block) : 0];
  }

  void run_block(const GraphContext<T>& context, std::int64_t block, const Values<T>& x,
                 BlockActivations<T>& a, Values<T>& out) {
    const auto at = static_cast<std::size_t>(block);
    block_forward(context, block, w_.blocks[at], x.data(), a, resized(out, size(context)));
    for (std::size_t e = 0; e < report_.expert_load[at].size(); ++e)
      report_.expert_load[at][e] = a.experts.slot_begin[e + 1] - a.experts.slot_begin[e];
    indexer_losses_[at] = a.attention.indexer_loss;
    balance_losses_[at] = a.experts.balance_loss;
    const LayerAttention shape = config_.attention(block);
    if (indexers_learn_alone_ && has_indexer_loss(context, shape)) {
      indexer_backward(context, shape, w_.blocks[at].attention, a.attn_site.normed.data(), a.attention);
    }
  }

  /// Gradients of one head's loss, whose sum weighs `weight` over the number of targets.
  HeadGradients<T> head_gradients(T weight, Values<T>& dstreams) {
    if (!has_gradients_) return {};
    return {.scale = weight / static_cast<T>(std::max<std::int64_t>(batch_.num_global_targets, 1)),
            .dstreams = dstreams.data()};
  }

  std::vector<T> head_logits(const GraphContext<T>& context, const SiteRows& w, const Values<T>& streams) {
    SiteActivations<T> a;
    site_forward(context, SiteKind::kHead, w, streams.data(), a);
    std::vector<T> z(static_cast<std::size_t>(context.tokens() * config_.vocab_size));
    graph::head_logits(context, context.tokens(), a.normed.data(), w_.head, z.data());
    return z;
  }

  struct MtpValues {
    MtpActivations<T> entry;
    BlockActivations<T> block;
    Values<T> in, out;  ///< streams [N', n, d] of the block
  };

  void mtp_forward(const GraphContext<T>& context, const MtpBatch& batch, MtpValues& v) {
    context.enter(ModelPart::kMtpEntry, config_.num_hidden_layers);
    mtp_entry_forward(context, batch, w_.drafts.back(), w_.embedding, streams_.back().data(), v.entry,
                      resized(v.in, size(context)));
    run_block(context, config_.num_hidden_layers, v.in, v.block, v.out);
  }

  /// The MTP block and its loss; adds the gradient of the main model's last streams to dx.
  void run_mtp(Values<T>& dx) {
    CrossEntropy<T> cross_entropy;
    const MtpBatch batch(batch_);
    const GraphContext<T> context(config_, context_.hash_tables, batch.batch, options_, executors_,
                                  context_.pool, context_.parameters);
    MtpValues v;
    mtp_forward(context, batch, v);
    Values<T> dout;
    if (has_gradients_) zeros(dout, size(context), context.pool);
    context.enter(ModelPart::kHead, config_.num_hidden_layers);
    report_.mtp_loss_sum =
        token_loss(context, mtp_site(), w_.head, v.out.data(), targets_of(batch.batch), cross_entropy,
                   head_gradients(static_cast<T>(options_.mtp_weight), dout));
    if (!has_gradients_) return;
    Values<T> din;
    block_backward(context, config_.num_hidden_layers, w_.blocks.back(), v.in.data(), v.block, dout.data(),
                   zeros(din, size(context), context.pool));
    mtp_entry_backward(context, batch, w_.drafts.back(), w_.embedding, v.entry, din.data(), dx.data());
  }

  void backward(Values<T>& dx) {
    const RecordedPause pause(context_.record());
    Values<T> again;
    Values<T> dout;
    for (std::int64_t block = config_.num_hidden_layers - 1; block >= 0; --block) {
      const auto at = static_cast<std::size_t>(block);
      if (!keeps()) run_block(context_, block, streams_[at], of_block(block), again);
      dout.swap(dx);
      block_backward(context_, block, w_.blocks[at], streams_[at].data(), of_block(block), dout.data(),
                     zeros(dx, size(context_), context_.pool));
    }
    embed_backward(context_, dx.data(), w_.embedding);
  }

  const ModelConfig& config_;
  const PassOptions& options_;
  PassExecutors executors_;
  GraphContext<T> context_;
  RowTree w_;
  bool has_gradients_, indexers_learn_alone_;
  const TrainingBatch& batch_;
  std::vector<Values<T>> streams_;  ///< before each block and after the last; without gradients the latest
  std::vector<BlockActivations<T>> blocks_;              ///< one a block, or one for all
  std::vector<double> indexer_losses_, balance_losses_;  ///< one for each block
  LossReport report_;
};

void check_geometry(const ModelConfig& config, const HashTables& tables) {
  if (config.num_nextn_predict_layers > 1)
    fail("training: num_nextn_predict_layers is {}, expected 0 or 1", config.num_nextn_predict_layers);
  if (config.scoring_func != ScoringFunc::kSqrtSoftplus || !config.norm_topk_prob || config.n_group != 1)
    fail("training: the router must have scoring_func sqrtsoftplus, norm_topk_prob true and n_group 1");
  for (std::int64_t block = 0; block < config.num_blocks(); ++block) {
    const LayerAttention shape = config.attention(block);
    if (shape.ratio == 1 || shape.window_tokens == 0)
      fail(
          "training: layer {} has compress_ratio {} and a window of {}, expected another ratio than 1 and a "
          "window",
          block, shape.ratio, shape.window_tokens);
  }
  const std::int64_t rows = config.num_hash_layers == 0 ? 0 : config.vocab_size * config.num_experts_per_tok;
  if (static_cast<std::int64_t>(tables.size()) != config.num_hash_layers)
    fail("training: {} hash tables, expected {}, one a hash layer", tables.size(), config.num_hash_layers);
  for (const std::vector<std::int64_t>& table : tables) {
    if (static_cast<std::int64_t>(table.size()) != rows)
      fail("training: a hash table has {} values, expected {}: vocab_size * num_experts_per_tok",
           table.size(), rows);
  }
}

}  // namespace

template <class T>
TrainingGraph<T>::TrainingGraph(const ModelConfig& config, const HashTables& hash_tables, ThreadPool& pool)
    : config_(config), hash_tables_(hash_tables), pool_(pool) {
  check_geometry(config, hash_tables);
}

namespace {

/// body(pass) of a pass on this machine.
template <class T, class Body>
auto on_pool(const ModelConfig& config, const HashTables& tables, ThreadPool& pool,
             const Parameters<T>& weights, const TrainingBatch& batch, const PassOptions& options,
             Parameters<T>* gradients, Body&& body) {
  PassExecutor executor(pool, options.bf16_products);
  Pass<T> pass(config, tables, PassThreads(&pool), executor.executors(), batch, options, weights.table(),
               {&weights, gradients}, gradients != nullptr);
  return body(pass);
}

}  // namespace

template <class T>
LossReport TrainingGraph<T>::run(const Parameters<T>& weights, const TrainingBatch& batch,
                                 const PassOptions& options, Parameters<T>* gradients,
                                 TokenObjective<T>* objective) {
  return on_pool<T>(config_, hash_tables_, pool_, weights, batch, options, gradients,
                    [&](Pass<T>& pass) { return pass.run(objective); });
}

template <class T>
std::vector<T> TrainingGraph<T>::head_inputs(const Parameters<T>& weights, const TrainingBatch& batch,
                                             const PassOptions& options) {
  return on_pool<T>(config_, hash_tables_, pool_, weights, batch, options, nullptr,
                    [&](Pass<T>& pass) { return pass.head_inputs(); });
}

template <class T>
std::vector<T> TrainingGraph<T>::logits(const Parameters<T>& weights, const TrainingBatch& batch,
                                        const PassOptions& options, LogitsOf of) {
  return on_pool<T>(config_, hash_tables_, pool_, weights, batch, options, nullptr,
                    [&](Pass<T>& pass) { return pass.logits(of); });
}

RecordedPass record_pass(const ModelConfig& config, std::span<const std::int64_t> document_lengths,
                         const PassOptions& options, std::int64_t num_threads) {
  TrainingBatch batch;
  for (const std::int64_t length : document_lengths) {
    const std::int64_t begin = batch.num_tokens();
    batch.tokens.resize(static_cast<std::size_t>(begin + length));
    batch.is_target.resize(batch.tokens.size(), 1);
    batch.is_target[static_cast<std::size_t>(begin)] = 0;
    batch.documents.push_back({begin, begin + length});
  }
  PassRecord record(options.bf16_products, num_threads);
  static_cast<void>(Pass<float>(config, {}, PassThreads(nullptr), record.executors(), batch, options,
                                training_table(config, options.plain_residual), {}, true)
                        .run(nullptr));
  return {record.operations(), record.memory()};
}

template class TrainingGraph<float>;
template class TrainingGraph<double>;

}  // namespace baleen
