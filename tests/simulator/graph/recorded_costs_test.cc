// What the recorder writes down is what the engine counts when it runs the same batch.

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "engine/engine.h"
#include "model/presets.h"
#include "model_files/made_up.h"
#include "simulator/graph/op_graph.h"
#include "tests/support/random_checkpoint.h"

namespace baleen {
namespace {

/// An engine with some sequences, and the same step asked of the recorder.
class RecordedCosts : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    config_ = preset_config(GetParam());
    EngineOptions options;
    options.device = {};
    options.num_threads = 1;
    options.max_batch_tokens = 512;
    options.max_sequences = 4;
    options.max_logit_rows = 64;
    options.cache_tokens = 4096;
    if (config_.engram) {
      // N-grams are of a tokenizer's ids.
      checkpoint_.emplace(config_, 7, "models/stories");
      engine_ = std::make_unique<Engine>(checkpoint_->path(), options);
      return;
    }
    ThreadPool pool(1);
    engine_ = std::make_unique<Engine>(made_up_weights(config_, 7, pool), options);
  }

  std::vector<std::vector<std::int64_t>> load() const { return engine_->expert_load(); }

  /// Feeds `count` tokens to each sequence and returns the profile of that step.
  std::map<std::string, OpRecord> step(const std::vector<std::pair<SequenceId, std::int64_t>>& parts) {
    std::vector<std::vector<TokenId>> tokens;
    std::vector<StepInput> inputs;
    for (const auto& [sequence, count] : parts) {
      std::vector<TokenId> ids;
      for (std::int64_t i = 0; i < count; ++i)
        ids.push_back(static_cast<TokenId>((next_token_ += 37) % config_.vocab_size));
      tokens.push_back(std::move(ids));
    }
    for (std::size_t i = 0; i < parts.size(); ++i)
      inputs.push_back({parts[i].first, tokens[i], WantedLogits::kLast});
    load_before_ = load();
    engine_->device().set_profiling(true);
    engine_->device().profile().clear();
    const auto output = engine_->step(inputs);
    EXPECT_TRUE(output) << (output ? "" : output.error());
    engine_->device().set_profiling(false);
    std::map<std::string, OpRecord> records;
    for (const auto& [name, record] : engine_->device().profile().records())
      records[std::string(name)] = record;
    return records;
  }

  /// Of the last step.
  double active(std::int64_t block) const {
    const auto now = load();
    double count = 0;
    const auto b = static_cast<std::size_t>(block);
    for (std::size_t e = 0; e < now[b].size(); ++e) count += now[b][e] > load_before_[b][e] ? 1 : 0;
    return count;
  }

  std::map<std::string, OpRecord> recorded(const RankBatch& batch) const {
    const ParallelPlan plan = resolved({.num_devices = 1}, config_);
    const RankModel model(config_, {.dense = config_.dense_format, .experts = config_.expert_format}, plan);
    const OpGraph graph = record_step(model, batch, {},
                                      {.activations = ElementType::kF32,
                                       .fuses = false,
                                       .active_experts = [&](std::int64_t block) { return active(block); }});
    std::map<std::string, OpRecord> records;
    for (const GraphOp& op : graph.ops) {
      OpRecord& record = records[std::string(op.name)];
      ++record.calls;
      record.cost += op.cost;
    }
    return records;
  }

  static void expect_equal(const std::map<std::string, OpRecord>& engine,
                           const std::map<std::string, OpRecord>& recorder) {
    for (const auto& [name, record] : recorder) EXPECT_TRUE(engine.contains(name)) << name;
    for (const auto& [name, record] : engine) {
      ASSERT_TRUE(recorder.contains(name)) << name;
      const OpRecord& found = recorder.at(name);
      EXPECT_EQ(found.calls, record.calls) << name;
      for (std::size_t f = 0; f < record.cost.flops.size(); ++f)
        EXPECT_EQ(found.cost.flops[f], record.cost.flops[f]) << name << " format " << f;
      EXPECT_EQ(found.cost.scalar_ops, record.cost.scalar_ops) << name;
      EXPECT_EQ(found.cost.read_bytes, record.cost.read_bytes) << name;
      EXPECT_EQ(found.cost.write_bytes, record.cost.write_bytes) << name;
    }
  }

  ModelConfig config_;
  std::optional<test::RandomCheckpoint> checkpoint_;
  std::unique_ptr<Engine> engine_;
  std::vector<std::vector<std::int64_t>> load_before_;
  std::int64_t next_token_ = 11;
};

/// Three sequences in every phase: whole prompts, chunks, single tokens, across the ends of blocks of 4 and
/// 128 and of pairs, behind more entries than the indexer selects, and more blocks of them than are
/// candidates.
TEST_P(RecordedCosts, EveryStepOfARaggedBatch) {
  const SequenceId a = *engine_->open({}), b = *engine_->open({}), c = *engine_->open({});
  std::map<SequenceId, std::int64_t> lengths;
  const std::vector<std::vector<std::pair<SequenceId, std::int64_t>>> steps{
      {{a, 300}, {b, 70}},        {{a, 1}, {b, 57}, {c, 131}},
      {{a, 1}, {b, 1}, {c, 260}}, {{c, 1}},
      {{a, 1}, {b, 1}, {c, 1}},   {{b, 3}, {a, 2}},
      {{a, 128}, {c, 127}},       {{b, 1}, {c, 1}}};
  for (const auto& parts : steps) {
    RankBatch batch;
    for (const auto& [sequence, count] : parts) {
      batch.push_back({.start = lengths[sequence], .num_tokens = count, .num_logits = 1});
      lengths[sequence] += count;
    }
    const auto counted = step(parts);
    SCOPED_TRACE(testing::Message() << "step to " << lengths[a] << ", " << lengths[b] << ", " << lengths[c]);
    // Logits come to the host here: nothing is chosen on the device.
    auto written = recorded(batch);
    written.erase("sample");
    expect_equal(counted, written);
  }
}

INSTANTIATE_TEST_SUITE_P(Presets, RecordedCosts,
                         testing::Values("tiny-flash", "tiny-real-heads", "tiny-v41"));

}  // namespace
}  // namespace baleen
