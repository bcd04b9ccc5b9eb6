#include "trainer/graph/model.h"

#include <numeric>

#include "base/check.h"
#include "base/error.h"
#include "model/weight_binding.h"
#include "ops/embed/embed.h"
#include "trainer/graph/block.h"
#include "trainer/graph/indexer.h"
#include "trainer/graph/latents.h"
#include "trainer/graph/mtp.h"
#include "trainer/graph/site.h"
#include "trainer/graph/token_loss.h"

namespace baleen {
namespace {

using namespace graph;

/// The streams before the first block: each token's embedding, n times. Where mixing lags the first stream
/// alone is what the first half-block reads.
template <class T>
void embed_forward(const GraphContext<T>& context, TensorRow embedding, StreamValues<T>& streams) {
  T* const x = resized(streams.x, context.tokens() * context.config.hc_dim());
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
  if (!context.config.lags_mixing()) return;
  const std::int64_t n = context.config.hc_mult;
  zeros(streams.pre, context.tokens() * n);
  if (!context.pool.compute()) return;
  for (std::int64_t row = 0; row < context.tokens(); ++row)
    streams.pre[static_cast<std::size_t>(row * n)] = T{1};
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
  Pass(const ModelConfig& config, const TokenTables& tables, PassThreads threads, PassExecutors executors,
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
    shared_.resize(static_cast<std::size_t>(config.num_blocks()));
    entry_begin_.resize(static_cast<std::size_t>(config.num_blocks()));
    blocks_.resize(keeps() ? static_cast<std::size_t>(config.num_hidden_layers) : 1);
  }

  void forward() {
    context_.enter(ModelPart::kMixing, -1);
    streams_.resize(1);
    embed_forward(context_, w_.embedding, streams_[0]);
    for (std::int64_t block = 0; block < config_.num_hidden_layers; ++block) {
      StreamValues<T> out;
      run_block(context_, block, streams_.back(), of_block(block), out);
      if (!has_gradients_) streams_.clear();
      streams_.push_back(std::move(out));
    }
    if (indexers_learn_alone_) shared_keys_backward();
  }

  /// [N, V], or of the MTP block [N', V].
  std::vector<T> logits(LogitsOf of) {
    forward();
    if (of == LogitsOf::kMain) return head_logits(context_, main_site(), streams_.back());
    const MtpBatch batch(batch_);
    const GraphContext<T> context(config_, context_.token_tables, batch.batch, options_, executors_,
                                  context_.pool, context_.parameters);
    MtpValues values;
    mtp_forward(context, batch, values);
    return head_logits(context, mtp_site(), values.out);
  }

  /// [targets, d]
  std::vector<T> head_inputs() {
    forward();
    SiteActivations<T> a;
    site_forward(context_, SiteKind::kHead, main_site(), SiteInputs<T>(streams_.back()), a);
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
    StreamValues<T> dx;
    if (has_gradients_) zero_streams(context_, dx);
    const Targets targets = targets_of(batch_);
    report_.num_targets = targets.size();
    context_.enter(ModelPart::kHead, -1);
    report_.loss_sum =
        token_loss(context_, main_site(), w_.head, SiteInputs<T>(streams_.back()), targets,
                   objective != nullptr ? *objective : cross_entropy, head_gradients(T{1}, dx));
    if (config_.num_nextn_predict_layers > 0 && options_.mtp_weight != 0) run_mtp(dx);
    if (has_gradients_) backward(dx);
    report_.indexer_loss_sum = std::accumulate(indexer_losses_.begin(), indexer_losses_.end(), 0.0);
    report_.balance_loss_sum = std::accumulate(balance_losses_.begin(), balance_losses_.end(), 0.0);
    return std::move(report_);
  }

 private:
  [[nodiscard]] bool keeps() const { return has_gradients_ && !options_.recompute; }
  [[nodiscard]] SiteRows main_site() const { return {w_.hc_head, w_.norm}; }
  [[nodiscard]] SiteRows mtp_site() const {
    const DraftBlockRows& mtp = w_.drafts.back();
    return {options_.plain_residual ? MixingRows{} : mtp.mixings.at("hc_head"), mtp.vectors.at("norm")};
  }
  BlockActivations<T>& of_block(std::int64_t block) {
    return blocks_[keeps() ? static_cast<std::size_t>(block) : 0];
  }

  void run_block(const GraphContext<T>& context, std::int64_t block, const StreamValues<T>& in,
                 BlockActivations<T>& a, StreamValues<T>& out) {
    const auto at = static_cast<std::size_t>(block);
    block_forward(context, block, w_.blocks[at], in, shared_, a, out);
    for (std::size_t e = 0; e < report_.expert_load[at].size(); ++e)
      report_.expert_load[at][e] = a.experts.slot_begin[e + 1] - a.experts.slot_begin[e];
    indexer_losses_[at] = a.attention.indexer_loss;
    balance_losses_[at] = a.experts.balance_loss;
    if (indexers_learn_alone_ && has_indexer_loss(context, config_.attention(block))) {
      indexer_backward(context, block, w_.blocks[at].attention, a.attn_site.normed.data(), shared_,
                       a.attention);
    }
    entry_begin_[at] = a.attention.entry_begin;
  }

  /// Of index keys that several blocks read, once all have.
  void shared_keys_backward() {
    for (std::int64_t block = 0; block < config_.num_hidden_layers; ++block) {
      const LayerAttention shape = config_.attention(block);
      const auto at = static_cast<std::size_t>(block);
      if (shape.makes_entries() && shape.entry_form == EntryForm::kLatent)
        index_keys_backward(context_, block, w_.blocks[at].attention, entry_begin_[at], shared_);
    }
  }

  /// Gradients of one head's loss, whose sum weighs `weight` over the number of targets.
  HeadGradients<T> head_gradients(T weight, StreamValues<T>& dstreams) {
    if (!has_gradients_) return {};
    return {.scale = weight / static_cast<T>(std::max<std::int64_t>(batch_.num_global_targets, 1)),
            .streams = {dstreams.x.data(), dstreams.pre.data()}};
  }

  std::vector<T> head_logits(const GraphContext<T>& context, const SiteRows& w,
                             const StreamValues<T>& streams) {
    SiteActivations<T> a;
    site_forward(context, SiteKind::kHead, w, SiteInputs<T>(streams), a);
    std::vector<T> z(static_cast<std::size_t>(context.tokens() * config_.vocab_size));
    graph::head_logits(context, context.tokens(), a.normed.data(), w_.head, z.data());
    return z;
  }

  struct MtpValues {
    MtpActivations<T> entry;
    BlockActivations<T> block;
    StreamValues<T> in, out;  ///< streams that enter and leave the block
  };

  void mtp_forward(const GraphContext<T>& context, const MtpBatch& batch, MtpValues& v) {
    context.enter(ModelPart::kMtpEntry, config_.num_hidden_layers);
    mtp_entry_forward(context, batch, w_.drafts.back(), w_.embedding, streams_.back().x.data(), v.entry,
                      resized(v.in.x, context.tokens() * config_.hc_dim()));
    run_block(context, config_.num_hidden_layers, v.in, v.block, v.out);
  }

  /// The MTP block and its loss; adds the gradient of the main model's last streams to dx.
  void run_mtp(StreamValues<T>& dx) {
    CrossEntropy<T> cross_entropy;
    const MtpBatch batch(batch_);
    const GraphContext<T> context(config_, context_.token_tables, batch.batch, options_, executors_,
                                  context_.pool, context_.parameters);
    MtpValues v;
    mtp_forward(context, batch, v);
    StreamValues<T> dout;
    if (has_gradients_) zero_streams(context, dout);
    context.enter(ModelPart::kHead, config_.num_hidden_layers);
    report_.mtp_loss_sum =
        token_loss(context, mtp_site(), w_.head, SiteInputs<T>(v.out), targets_of(batch.batch), cross_entropy,
                   head_gradients(static_cast<T>(options_.mtp_weight), dout));
    if (!has_gradients_) return;
    StreamValues<T> din;
    zero_streams(context, din);
    block_backward(context, config_.num_hidden_layers, w_.blocks.back(), v.in, shared_, v.block, dout, din);
    mtp_entry_backward(context, batch, w_.drafts.back(), w_.embedding, v.entry, din.x.data(), dx.x.data());
  }

  void backward(StreamValues<T>& dx) {
    const RecordedPause pause(context_.record());
    StreamValues<T> again;
    StreamValues<T> dout;
    for (std::int64_t block = config_.num_hidden_layers - 1; block >= 0; --block) {
      const auto at = static_cast<std::size_t>(block);
      if (!keeps()) run_block(context_, block, streams_[at], of_block(block), again);
      std::swap(dout, dx);
      zero_streams(context_, dx);
      block_backward(context_, block, w_.blocks[at], streams_[at], shared_, of_block(block), dout, dx);
    }
    embed_backward(context_, dx.x.data(), w_.embedding);
  }

  const ModelConfig& config_;
  const PassOptions& options_;
  PassExecutors executors_;
  GraphContext<T> context_;
  RowTree w_;
  bool has_gradients_, indexers_learn_alone_;
  const TrainingBatch& batch_;
  std::vector<StreamValues<T>> streams_;  ///< before each block and after the last; without gradients the
                                          ///< latest
  SharedOfBlocks<T> shared_;
  std::vector<BlockActivations<T>> blocks_;             ///< one a block, or one for all
  std::vector<std::vector<std::int64_t>> entry_begin_;  ///< where the entries of each block's documents begin
  std::vector<double> indexer_losses_, balance_losses_;  ///< one for each block
  LossReport report_;
};

void check_geometry(const ModelConfig& config, const TokenTables& tables) {
  if (config.num_nextn_predict_layers > 0 && config.draft_kind == DraftKind::kDspark) {
    fail(
        "training: a DSpark head is not trained; num_nextn_predict_layers = 0 trains the model without its "
        "draft head");
  }
  if (config.num_nextn_predict_layers > 1)
    fail("training: num_nextn_predict_layers is {}, expected 0 or 1", config.num_nextn_predict_layers);
  if (config.scoring_func != ScoringFunc::kSqrtSoftplus || !config.norm_topk_prob || config.n_group != 1)
    fail("training: the router must have scoring_func sqrtsoftplus, norm_topk_prob true and n_group 1");
  for (std::int64_t block = 0; block < config.num_blocks(); ++block) {
    const LayerAttention shape = config.attention(block);
    if (shape.window_tokens == 0) fail("training: layer {} has a window of 0, expected a window", block);
    if (shape.ratio == 1 && shape.entry_form != EntryForm::kLatent)
      fail("training: layer {} has compress_ratio 1, expected another of a model without latents", block);
  }
  const std::int64_t rows = config.num_hash_layers == 0 ? 0 : config.vocab_size * config.num_experts_per_tok;
  if (static_cast<std::int64_t>(tables.experts.size()) != config.num_hash_layers)
    fail("training: {} hash tables, expected {}, one a hash layer", tables.experts.size(),
         config.num_hash_layers);
  for (const std::vector<std::int64_t>& table : tables.experts) {
    if (static_cast<std::int64_t>(table.size()) != rows)
      fail("training: a hash table has {} values, expected {}: vocab_size * num_experts_per_tok",
           table.size(), rows);
  }
  if (config.engram && tables.ngrams == nullptr)
    fail("training: the model has Engram tables, and nothing says which rows n-grams read");
}

}  // namespace

template <class T>
TrainingGraph<T>::TrainingGraph(const ModelConfig& config, const TokenTables& token_tables, ThreadPool& pool)
    : config_(config), token_tables_(token_tables), pool_(pool) {
  check_geometry(config, token_tables);
}

namespace {

/// body(pass) of a pass on this machine.
template <class T, class Body>
auto on_pool(const ModelConfig& config, const TokenTables& tables, ThreadPool& pool,
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
  return on_pool<T>(config_, token_tables_, pool_, weights, batch, options, gradients,
                    [&](Pass<T>& pass) { return pass.run(objective); });
}

template <class T>
std::vector<T> TrainingGraph<T>::head_inputs(const Parameters<T>& weights, const TrainingBatch& batch,
                                             const PassOptions& options) {
  return on_pool<T>(config_, token_tables_, pool_, weights, batch, options, nullptr,
                    [&](Pass<T>& pass) { return pass.head_inputs(); });
}

template <class T>
std::vector<T> TrainingGraph<T>::logits(const Parameters<T>& weights, const TrainingBatch& batch,
                                        const PassOptions& options, LogitsOf of) {
  return on_pool<T>(config_, token_tables_, pool_, weights, batch, options, nullptr,
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
