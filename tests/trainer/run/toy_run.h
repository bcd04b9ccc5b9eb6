/// A run around a loss that is simple enough to know its gradient: rows of the embedding move towards 1.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "model/weight_binding.h"
#include "tests/support/temporary_folder.h"
#include "trainer/run/training_run.h"
#include "training_data/pack.h"

namespace baleen::test {

namespace fs = std::filesystem;
inline constexpr const char* kToyConfig = R"(
[run]
folder = "run"
steps = 12
[model]
preset = "tiny-flash"
vocab_size = 4096
num_hidden_layers = 2
compress_ratios = [0, 4, 0]
n_routed_experts = 4
moe_intermediate_size = 128
[data]
folder = "data"
sequence_length = 32
batch_rows = 4
micro_batch_rows = 2
[schedule]
learning_rate = 0.05
warmup_steps = 3
decay_steps = 4
[checkpoint]
interval = 5
keep = 2
[evaluation]
interval = 6
rows = 4
)";

class ToyRun : public ::testing::Test {
 protected:
  ToyRun() {
    std::ofstream corpus(folder_ / "corpus.jsonl");
    for (int i = 0; i < 60; ++i)
      corpus << R"({"text": "The fox number )" << i << R"( ran over the hill and slept until the morning."})"
             << "\n";
    corpus.close();
    PackOptions pack;
    pack.files = {folder_ / "corpus.jsonl"};
    pack.tokenizer = "models/stories";
    pack.out = folder_ / "data";
    pack.held_out_share = 0.3;
    pack_corpus(pack);
    config_ = parse_train_config(kToyConfig, "test.toml", folder_.path());
  }

  /// 0.5 |embed[token] - 1|² of each target; `poison_step` counts calls that give NaN.
  LossReport toy_loss(const Parameters<float>& weights, const TrainingBatch& batch,
                      Parameters<float>* gradients) const {
    const auto width = static_cast<std::size_t>(config_.model.hidden_size);
    const std::span<const float> embed = weights.values(0);
    const auto num_experts = static_cast<std::size_t>(config_.model.n_routed_experts);
    LossReport report;
    report.expert_load.assign(static_cast<std::size_t>(config_.model.num_blocks()),
                              std::vector<std::int64_t>(num_experts));
    for (std::size_t i = 0; i < batch.tokens.size(); ++i) {
      const auto token = static_cast<std::size_t>(batch.tokens[i]);
      for (auto& load : report.expert_load) ++load[token % num_experts];
      if (batch.is_target[i] == 0) continue;
      ++report.num_targets;
      for (std::size_t d = 0; d < width; ++d) {
        const float difference = embed[token * width + d] - 1;
        report.loss_sum += 0.5 * difference * difference;
        if (gradients != nullptr)
          gradients->values(0)[token * width + d] +=
              difference / static_cast<float>(batch.num_global_targets);
      }
    }
    return report;
  }

  LossFunction loss() {
    return [this](const Parameters<float>& weights, const TrainingBatch& batch, const PassOptions&,
                  Parameters<float>* gradients) {
      if (gradients != nullptr && std::ranges::find(poisoned_, num_passes_++ / 2) != poisoned_.end())
        gradients->values(bind_rows(config_.model, gradients->table()).block(1).attention.wq_a)[0] =
            std::numeric_limits<float>::quiet_NaN();
      return toy_loss(weights, batch, gradients);
    };
  }

  /// The weights after a run in a folder called `name`.
  Parameters<float> train(const std::string& name, TrainingRunOptions options = {}, int num_threads = 1) {
    ThreadPool pool(num_threads);
    const RunFolder folder(folder_ / name);
    TrainingRun run(config_, folder, {loss()}, std::move(options), pool);
    run.run();
    return run.state().weights;
  }

  std::vector<nlohmann::json> log_of(const std::string& name) const {
    std::ifstream file(folder_ / name / "log.jsonl");
    std::vector<nlohmann::json> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }

  static std::string error_of(const std::function<void()>& action) {
    try {
      action();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  static void expect_same(const Parameters<float>& a, const Parameters<float>& b) {
    for (std::size_t i = 0; i < a.size(); ++i)
      ASSERT_TRUE(std::ranges::equal(a.values(i), b.values(i))) << a.spec(i).name;
  }

  TemporaryFolder folder_;
  TrainConfig config_;
  std::vector<int> poisoned_;  ///< steps of this process whose gradients hold a NaN
  int num_passes_ = 0;
};

}  // namespace baleen::test
