#include "trainer/measure/training_step_times.h"

#include <algorithm>
#include <chrono>
#include <random>

#include "model/weight_binding.h"
#include "trainer/graph/attention.h"
#include "trainer/graph/block.h"
#include "trainer/graph/experts.h"
#include "trainer/graph/token_loss.h"
#include "trainer/optimiser/gradient_norm.h"
#include "trainer/optimiser/optimiser.h"
#include "trainer/run/model_flops.h"

namespace baleen {
namespace {

using namespace graph;

/// The least of the runs: what the machine does besides makes a run longer, never shorter.
template <class Body>
double least_seconds(int num_runs, Body&& body) {
  double least = 0;
  for (int run = 0; run < num_runs; ++run) {
    const auto start = std::chrono::steady_clock::now();
    body();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    least = run == 0 ? seconds : std::min(least, seconds);
  }
  return least;
}

TrainingBatch random_batch(const TrainConfig& config) {
  std::mt19937_64 random(config.run.seed);
  TrainingBatch batch;
  batch.row_begin = {0};
  for (std::int64_t row = 0; row < config.micro_batch_rows(1); ++row) {
    const std::int64_t begin = batch.num_tokens();
    for (std::int64_t i = 0; i < config.data.sequence_length; ++i) {
      batch.tokens.push_back(
          static_cast<TokenId>(random() % static_cast<std::uint64_t>(config.model.vocab_size)));
      batch.is_target.push_back(i > 0 ? 1 : 0);
    }
    batch.documents.push_back({begin, batch.num_tokens()});
    batch.row_begin.push_back(batch.num_tokens());
  }
  batch.num_global_targets = batch.num_tokens() - batch.num_rows();
  batch.num_global_tokens = batch.num_tokens();
  batch.num_global_documents = static_cast<std::int64_t>(batch.documents.size());
  return batch;
}

Values<float> random_values(std::int64_t count, double deviation) {
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal(0, static_cast<float>(deviation));
  Values<float> values(static_cast<std::size_t>(count));
  std::ranges::generate(values, [&] { return normal(random); });
  return values;
}

/// Of a model without a tokenizer: n-grams of token ids.
TokenTables tables_of(const TrainConfig& config) {
  TokenTables tables = make_token_tables(config.model, config.run.seed);
  if (!config.model.engram) return tables;
  std::vector<TokenId> compressed(static_cast<std::size_t>(config.model.vocab_size));
  for (std::size_t id = 0; id < compressed.size(); ++id)
    compressed[id] =
        static_cast<TokenId>(id % static_cast<std::size_t>(config.model.engram->compressed_vocab_size));
  tables.ngrams = std::make_shared<const EngramHashes>(config.model, std::move(compressed));
  return tables;
}

/// Seconds of forward and backward of one part, over all layers of a micro-batch.
struct BothWays {
  double forward = 0;
  double backward = 0;
};

/// A model of new weights, and the parts of its passes one by one.
class PartRuns {
 public:
  PartRuns(const TrainConfig& config, const TrainingBatch& batch, ThreadPool& pool, int num_runs)
      : config_(config),
        batch_(batch),
        num_runs_(num_runs),
        weights_(training_table(config.model, config.ablation.plain_residual)),
        gradients_(weights_.table()),
        token_tables_(tables_of(config)),
        executor_(pool, config.bf16_products()),
        executors_(executor_.executors()),
        context_(config.model, token_tables_, batch, measured_pass_options(config), executors_,
                 PassThreads(&pool), {&weights_, &gradients_}) {
    initialise(weights_, config.model, config.initializer_range, config.run.seed);
  }

  void measure_blocks() {
    const RowTree w = bind_rows(config_.model, weights_.table());
    const std::int64_t n = context_.tokens(), wide = n * config_.model.hc_dim();
    const std::int64_t narrow = context_.tokens() * config_.model.hidden_size;
    const std::int64_t mixed = config_.model.lags_mixing() ? n * config_.model.hc_mult : 0;
    const StreamValues<float> x{random_values(wide, 1), random_values(mixed, 1)},
        dout{random_values(wide, 1e-4), random_values(mixed, 1e-4)};
    StreamValues<float> out, dx;
    SharedOfBlocks<float> shared(static_cast<std::size_t>(config_.model.num_blocks()));
    BlockActivations<float> a;
    for (std::int64_t block = 0; block < config_.model.num_hidden_layers; ++block) {
      const auto at = static_cast<std::size_t>(block);
      const double whole_forward =
          least_seconds(num_runs_, [&] { block_forward(context_, block, w.blocks[at], x, shared, a, out); });
      const double whole_backward = least_seconds(num_runs_, [&] {
        zero_streams(context_, dx);
        block_backward(context_, block, w.blocks[at], x, shared, a, dout, dx);
      });
      Values<float> dnarrow;
      const BothWays attention = {least_seconds(num_runs_,
                                                [&] {
                                                  attention_forward(context_, block, w.blocks[at].attention,
                                                                    a.attn_site.normed.data(), shared,
                                                                    a.attention, a.attn_out.data());
                                                }),
                                  least_seconds(num_runs_, [&] {
                                    attention_backward(context_, block, w.blocks[at].attention,
                                                       a.attn_site.normed.data(), shared, a.attention,
                                                       dout.x.data(), zeros(dnarrow, narrow));
                                  })};
      const BothWays experts = {least_seconds(num_runs_,
                                              [&] {
                                                experts_forward(context_, block, w.blocks[at].moe,
                                                                a.ffn_site.normed.data(), a.experts,
                                                                a.ffn_out.data());
                                              }),
                                least_seconds(num_runs_, [&] {
                                  experts_backward(context_, w.blocks[at].moe, a.ffn_site.normed.data(),
                                                   a.experts, dout.x.data(), zeros(dnarrow, narrow));
                                })};
      add(attention_, attention.forward, attention.backward);
      add(experts_, experts.forward, experts.backward);
      add(mixing_, std::max(0.0, whole_forward - attention.forward - experts.forward),
          std::max(0.0, whole_backward - attention.backward - experts.backward));
    }
    head(w, x);
  }

  /// Adds norm and update to `parts`, for the gradients that the blocks left.
  void measure_update(std::vector<PartTime>& parts) {
    Optimiser optimiser(config_, weights_);
    ThreadPool& pool = context_.pool.threads();
    const double norms = least_seconds(num_runs_, [&] {
      const GradientNorms found = gradient_norms(gradients_.table(), optimiser.groups(),
                                                 gradient_squares(gradients_, optimiser.tensors(), pool));
      clip_gradients(gradients_, optimiser.tensors(), optimiser.groups(), found,
                     config_.optimizer.gradient_clip, pool);
    });
    const double rate = config_.schedule.learning_rate;
    const double all = least_seconds(num_runs_, [&] { optimiser.update(weights_, gradients_, rate, pool); });
    // Muon leaves matrices whose gradient is zeros: what remains is AdamW.
    gradients_.set_zero();
    const double adamw =
        least_seconds(num_runs_, [&] { optimiser.update(weights_, gradients_, rate, pool); });
    parts.push_back({"norm and clipping", norms});
    parts.push_back({"Muon", std::max(0.0, all - adamw)});
    parts.push_back({"AdamW", adamw});
  }

  [[nodiscard]] const BothWays& of(ModelPart part) const {
    return part == ModelPart::kAttention ? attention_
           : part == ModelPart::kExperts ? experts_
           : part == ModelPart::kMixing  ? mixing_
                                         : head_;
  }

 private:
  static void add(BothWays& sum, double forward, double backward) {
    sum.forward += forward;
    sum.backward += backward;
  }

  void head(const RowTree& w, const StreamValues<float>& x) {
    const Targets targets = targets_of(batch_);
    StreamValues<float> dstreams;
    zero_streams(context_, dstreams);
    HeadGradients<float> gradients{.scale = 1 / static_cast<float>(batch_.num_global_targets),
                                   .streams = {dstreams.x.data(), dstreams.pre.data()}};
    const auto pass = [&](const HeadGradients<float>& wanted) {
      CrossEntropy<float> loss;
      token_loss<float>(context_, {w.hc_head, w.norm}, w.head, SiteInputs<float>(x), targets, loss, wanted);
    };
    head_.forward = least_seconds(num_runs_, [&] { pass({}); });
    head_.backward = std::max(0.0, least_seconds(num_runs_, [&] { pass(gradients); }) - head_.forward);
  }

  const TrainConfig& config_;
  const TrainingBatch& batch_;
  int num_runs_;
  Parameters<float> weights_, gradients_;
  TokenTables token_tables_;
  PassExecutor executor_;
  PassExecutors executors_;
  GraphContext<float> context_;
  BothWays attention_, experts_, mixing_, head_;
};

}  // namespace

PassOptions measured_pass_options(const TrainConfig& config) {
  return {.mtp_weight = 0,
          .recompute = config.run.recompute,
          .indexer_weight = config.loss.indexer_weight,
          .balance_weight = config.balance.sequence_loss_weight,
          .plain_residual = config.ablation.plain_residual,
          .bf16_products = config.bf16_products(),
          .scaled_rope = true};
}

TrainingStepTimes measure_step(const TrainConfig& config, ThreadPool& pool, int num_runs) {
  const TrainingBatch batch = random_batch(config);
  PartRuns runs(config, batch, pool, num_runs);
  runs.measure_blocks();
  const auto num_parts = static_cast<double>(config.num_micro_batches(1));
  const PassFlops flops =
      ModelFlops(config.model, config.ablation.plain_residual).pass(batch, measured_pass_options(config));
  TrainingStepTimes times{.num_tokens = batch.num_tokens() * static_cast<std::int64_t>(num_parts)};
  double again = 0;
  for (const auto& [part, name] : {std::pair{ModelPart::kAttention, "attention"},
                                   {ModelPart::kExperts, "experts"},
                                   {ModelPart::kMixing, "mixing"},
                                   {ModelPart::kHead, "head"}}) {
    const BothWays& seconds = runs.of(part);
    const auto at = static_cast<std::size_t>(part);
    times.parts.push_back(
        {std::string(name) + ", forward", num_parts * seconds.forward, num_parts * flops.forward[at]});
    times.parts.push_back(
        {std::string(name) + ", backward", num_parts * seconds.backward, num_parts * flops.backward[at]});
    if (part != ModelPart::kHead && config.run.recompute) again += num_parts * seconds.forward;
  }
  if (config.run.recompute) times.parts.push_back({"forward again for the backward", again});
  runs.measure_update(times.parts);
  return times;
}

}  // namespace baleen
