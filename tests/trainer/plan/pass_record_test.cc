// FLOPs of matrix products that a pass writes down are those that it executes.

#include <gtest/gtest.h>

#include <atomic>

#include "ops/dense_product/dense_product.h"
#include "tests/trainer/graph/tiny_model.h"
#include "trainer/graph/model.h"

namespace baleen {
namespace {

std::atomic<std::int64_t> flops_executed{0};

}  // namespace

// In the place of the library's: the linker takes an object of a library for what no other object defines.
template <class T>
void dense_product(const DenseProduct<T>& p) {
  flops_executed += 2 * p.m * p.n * p.k;
  for (std::int64_t row = 0; row < p.m; ++row) {
    for (std::int64_t column = 0; column < p.n; ++column) {
      T sum = 0;
      for (std::int64_t i = 0; i < p.k; ++i) {
        sum += p.a[p.a_transposed ? i * p.a_stride + row : row * p.a_stride + i] *
               p.b[p.b_transposed ? column * p.b_stride + i : i * p.b_stride + column];
      }
      T& c = p.c[row * p.c_stride + column];
      c = p.alpha * sum + (p.accumulate ? c : T{0});
    }
  }
}

template <class T>
void dense_product(const DenseProduct<T>& p, ThreadPool& /*pool*/) {
  dense_product(p);
}

template void dense_product(const DenseProduct<float>&);
template void dense_product(const DenseProduct<double>&);
template void dense_product(const DenseProduct<float>&, ThreadPool&);
template void dense_product(const DenseProduct<double>&, ThreadPool&);

namespace {

/// Longer than a tile of queries; as long as one entry; without one; of a single token.
const std::vector<std::int64_t> kLengths{83, 8, 3, 1, 70};

std::int64_t executed(const ModelConfig& config, const PassOptions& options, bool with_gradients) {
  ThreadPool pool(2);
  TrainingBatch batch = test::documents(config, kLengths, 3);
  for (const TrainingBatch::Document& document : batch.documents) {
    for (std::int64_t i = document.begin; i < document.end; ++i)
      batch.is_target[static_cast<std::size_t>(i)] = i > document.begin ? 1 : 0;
  }
  const auto weights = test::random_weights<float>(config, 5, options.plain_residual);
  Parameters<float> gradients(weights.table());
  const TokenTables tables = test::token_tables(config, 2);
  TrainingGraph<float> graph(config, tables, pool);
  flops_executed = 0;
  static_cast<void>(graph.run(weights, batch, options, with_gradients ? &gradients : nullptr));
  return flops_executed;
}

struct Predicted {
  std::int64_t forward = 0, backward = 0, again = 0;
};

Predicted predicted(const ModelConfig& config, const PassOptions& options) {
  Predicted sum;
  for (const PassOperation& op : record_pass(config, kLengths, options).operations) {
    const auto forward = static_cast<std::int64_t>(op.forward.matrix_flops());
    sum.forward += forward;
    sum.backward += static_cast<std::int64_t>(op.backward.matrix_flops());
    if (options.recompute && !options.indexers_alone && op.block >= 0 && op.block < config.num_hidden_layers)
      sum.again += forward;
  }
  return sum;
}

void expect_same(const ModelConfig& config, const PassOptions& options) {
  const Predicted flops = predicted(config, options);
  EXPECT_GT(flops.backward, 0);
  EXPECT_EQ(flops.forward, executed(config, options, false));
  EXPECT_EQ(flops.forward + flops.again + flops.backward, executed(config, options, true));
}

/// Whose indexers select all entries.
ModelConfig model_that_selects_all() {
  ModelConfig config = test::tiny_model();
  config.index_topk = 100;
  return config;
}

TEST(PassRecord, ProductsAreThoseThatAPassExecutes) {
  const ModelConfig config = model_that_selects_all();
  {
    SCOPED_TRACE("a step before the indexers learn");
    expect_same(test::tiny_model(), {.recompute = false, .dense_attention = true});
  }
  {
    SCOPED_TRACE("a step of the whole model");
    expect_same(config, {.recompute = false, .indexer_weight = 1, .balance_weight = 1e-4});
  }
  {
    SCOPED_TRACE("with blocks computed again");
    expect_same(config, {.recompute = true, .indexer_weight = 1, .balance_weight = 1e-4});
  }
  {
    SCOPED_TRACE("indexers alone");
    expect_same(test::tiny_model(), {.dense_attention = true, .indexer_weight = 1, .indexers_alone = true});
  }
  {
    SCOPED_TRACE("without the MTP block, rounded, products of BF16");
    expect_same(config,
                {.mtp_weight = 0, .indexer_weight = 1, .rounds_as_released = true, .bf16_products = true});
  }
}

TEST(PassRecord, ProductsOfV41AreThoseThatAPassExecutes) {
  ModelConfig config = test::tiny_v41_model();
  {
    SCOPED_TRACE("a step before the indexers learn");
    expect_same(config, {.recompute = false, .dense_attention = true});
  }
  {
    SCOPED_TRACE("indexers alone");
    expect_same(config, {.dense_attention = true, .indexer_weight = 1, .indexers_alone = true});
  }
  config.index_topk = config.streams->candidate_topk_blocks = 100;
  {
    SCOPED_TRACE("a step of the whole model");
    expect_same(config, {.recompute = false, .indexer_weight = 1, .balance_weight = 1e-4});
  }
  {
    SCOPED_TRACE("with blocks computed again, rounded, products of BF16");
    config.index_head_dim = config.head_dim = 64;  // which codes share scales in
    config.engram->head_dim = 32;
    expect_same(config, {.indexer_weight = 1, .rounds_as_released = true, .bf16_products = true});
  }
}

TEST(PassRecord, WhereIndexersSelectTheEntriesOfATileEndAtTheLastSelected) {
  const ModelConfig config = test::tiny_model();
  const PassOptions options{.recompute = false, .indexer_weight = 1};
  const Predicted flops = predicted(config, options);
  const std::int64_t all = flops.forward + flops.backward;
  EXPECT_LE(executed(config, options, true), all);
  EXPECT_GT(executed(config, options, true), 95 * all / 100);
}

TEST(PassRecord, TheEnginesFloat32ProductsAreNotRounded) {
  for (const PassOperation& op :
       record_pass(test::tiny_model(), kLengths, {.indexer_weight = 1, .bf16_products = true}).operations) {
    const bool exact = op.name == "hc_pre" || op.name == "hc_head" ||
                       op.detail.find("gate") != std::string::npos ||
                       op.detail.find("compressor") != std::string::npos ||
                       op.detail.find("weights_proj") != std::string::npos;
    if (op.forward.matrix_flops() == 0) continue;
    EXPECT_EQ(op.forward.flops[static_cast<std::size_t>(MathFormat::kF32)],
              exact ? op.forward.matrix_flops() : 0)
        << op.name << " " << op.detail;
  }
}

TEST(PassRecord, WhereIndexersLearnAloneEverythingOfThemHasAGradientAndNothingElse) {
  const PassOptions options{.dense_attention = true, .indexer_weight = 1, .indexers_alone = true};
  bool of_indexer = false;
  int num_norms = 0;
  for (const PassOperation& op : record_pass(test::tiny_model(), kLengths, options).operations) {
    if (op.name == "linear" || op.name == "pooling") of_indexer = op.detail.starts_with("indexer.");
    if (op.name == "dense_attention") of_indexer = false;
    const bool trains = of_indexer || op.name == "indexer_loss" || op.name == "index_scores";
    EXPECT_EQ(op.backward.total_flops() > 0, trains && op.forward.total_flops() > 0)
        << op.name << " " << op.detail << " of " << op.block;
    num_norms += of_indexer && op.name == "rms_norm" ? 1 : 0;
  }
  EXPECT_GT(num_norms, 0);
}

TEST(PassRecord, ComputingBlocksAgainKeepsLess) {
  const ModelConfig config = model_that_selects_all();
  const PassMemory again = record_pass(config, kLengths, {.recompute = true}).memory;
  const PassMemory kept = record_pass(config, kLengths, {.recompute = false}).memory;
  EXPECT_LT(again.kept_bytes, kept.kept_bytes);
  EXPECT_LT(again.total_bytes(), kept.total_bytes());
  EXPECT_GT(again.work_bytes, 0);
}

TEST(PassRecord, OfPlainResiduals) {
  ModelConfig config = model_that_selects_all();
  config.hc_mult = 1;
  expect_same(config, {.recompute = false, .indexer_weight = 1, .plain_residual = true});
}

}  // namespace
}  // namespace baleen
