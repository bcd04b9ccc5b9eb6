// Files of a run and of its data that are not what was written: every bit is noticed, or means nothing.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "base/file.h"
#include "checkpoint/safetensors_writer.h"
#include "tests/trainer/run/toy_run.h"

namespace baleen {
namespace {

namespace fs = std::filesystem;

class Damage : public test::ToyRun {
 protected:
  /// A run of four steps in the folder "a".
  void begin() {
    train("a", {.stop_step = 4});
    checkpoint_ = folder_ / "a" / "step-000000004";
    expected_.emplace(resumed());
  }

  /// What a resumed run would continue from. Throws as it does.
  RunState resumed() {
    ThreadPool pool(1);
    const RunFolder folder(folder_ / "a");
    RunState state(config_);
    TrainingRun run(config_, folder, {loss()}, {.resume = true}, pool);
    // The same bytes once more, into a state that outlives the run.
    state.inputs = run.state().inputs;
    read_newest_checkpoint(folder, config_, state);
    EXPECT_EQ(run.state().step, state.step);
    for (std::size_t i = 0; i < state.weights.size(); ++i)
      EXPECT_TRUE(std::ranges::equal(run.state().weights.values(i), state.weights.values(i)));
    return state;
  }

  /// Whether a resumed run ends with a sentence, or continues from what was written.
  void expect_noticed_or_harmless(const std::string& what) {
    SCOPED_TRACE(what);
    try {
      RunState state = resumed();
      EXPECT_EQ(state.step, expected_->step);
      EXPECT_EQ(state.optimiser.num_updates(), expected_->optimiser.num_updates());
      EXPECT_EQ(state.skipped_in_row, expected_->skipped_in_row);
      expect_same(state.trained(), expected_->trained());
      for (std::size_t i = 0; i < state.trained().size(); ++i) {
        ASSERT_TRUE(std::ranges::equal(state.optimiser.first(i), expected_->optimiser.first(i)));
        ASSERT_TRUE(std::ranges::equal(state.optimiser.second(i), expected_->optimiser.second(i)));
      }
      ++num_harmless_;
    } catch (const Error& error) {
      EXPECT_GT(std::string(error.what()).size(), 20U);
      ++num_noticed_;
    }
  }

  static void flip(const fs::path& path, std::size_t byte, int bit) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(byte));
    const auto found = static_cast<char>(file.get());
    file.seekp(static_cast<std::streamoff>(byte));
    file.put(static_cast<char>(found ^ (1 << bit)));
  }

  /// `count` random bits of the first `most_bytes` of a file, one at a time.
  void flip_bits(const fs::path& path, int count, std::size_t most_bytes) {
    const std::size_t size = std::min<std::size_t>(fs::file_size(path), most_bytes);
    for (int i = 0; i < count; ++i) {
      const std::size_t byte = random_() % size;
      const int bit = static_cast<int>(random_() % 8);
      flip(path, byte, bit);
      expect_noticed_or_harmless(path.filename().string() + ", byte " + std::to_string(byte) + ", bit " +
                                 std::to_string(bit));
      flip(path, byte, bit);
    }
  }

  std::string resume_error() {
    return error_of([this] { (void)resumed(); });
  }
  void expect_error(const std::string& part) {
    const std::string error = resume_error();
    EXPECT_NE(error.find(part), std::string::npos) << error;
  }

  nlohmann::ordered_json run_json() const {
    return nlohmann::ordered_json::parse(read_text_file(checkpoint_ / "run.json"));
  }
  void write_run_json(const nlohmann::ordered_json& run) const {
    std::ofstream(checkpoint_ / "run.json") << run.dump(1);
  }
  /// The checkpoint as a version without checksums wrote it, with `name` = `value` where there is a name.
  void make_old(const char* name = nullptr, std::int64_t value = 0) const {
    nlohmann::ordered_json run = run_json();
    for (const char* member : {"checksum", "tensors", "inputs", "log"}) run.erase(member);
    run["version"] = 1;
    if (name != nullptr) run[name] = value;
    write_run_json(run);
  }
  /// Rewrites state.safetensors: `change` gets each tensor's values by name; `extra` names one more.
  void rewrite_state(const std::function<void(const std::string&, std::vector<float>&)>& change,
                     const std::string& extra = "") const {
    std::vector<TensorHeader> headers;
    std::map<std::string, std::vector<float>> values;
    {
      const SafetensorsFile file(checkpoint_ / "state.safetensors");
      for (const TensorInfo& tensor : file.tensors()) {
        headers.push_back(tensor);
        std::vector<float>& copy = values[tensor.name];
        copy.resize(static_cast<std::size_t>(tensor.num_elements()));
        std::memcpy(copy.data(), tensor.bytes.data(), tensor.bytes.size());
        change(tensor.name, copy);
      }
    }
    if (!extra.empty()) {
      headers.push_back({extra, DType::kF32, {2}});
      values[extra] = {1, 2};
    }
    SafetensorsWriter writer(checkpoint_ / "state.safetensors", headers);
    for (const TensorHeader& header : std::vector<TensorHeader>(writer.order()))
      writer.append(header.name, std::as_bytes(std::span(values.at(header.name))));
    writer.commit();
  }

  std::mt19937_64 random_{7};
  fs::path checkpoint_;
  std::optional<RunState> expected_;
  int num_noticed_ = 0, num_harmless_ = 0;
};

TEST_F(Damage, EveryBitOfACheckpointWithMuon) {
  begin();
  flip_bits(checkpoint_ / "state.safetensors", 40, std::numeric_limits<std::size_t>::max());
  flip_bits(checkpoint_ / "state.safetensors", 40, 4096);  // its header
  EXPECT_GT(num_noticed_, 60);
}

TEST_F(Damage, EveryBitOfACheckpointWithAdamWAndAdapters) {
  config_.optimizer.matrices = MatrixOptimizer::kAdamW;
  config_.lora.rank = 2;
  config_.lora.alpha = 2;
  begin();
  flip_bits(checkpoint_ / "state.safetensors", 40, std::numeric_limits<std::size_t>::max());
  EXPECT_GT(num_noticed_, 35);
}

TEST_F(Damage, EveryByteOfThePosition) {
  begin();
  flip_bits(checkpoint_ / "run.json", 200, std::numeric_limits<std::size_t>::max());
  EXPECT_GT(num_noticed_, 150);
}

TEST_F(Damage, EveryBitOfPackedData) {
  begin();
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_ / "data"))
    flip_bits(entry.path(), 30, std::numeric_limits<std::size_t>::max());
  EXPECT_GT(num_noticed_, 100);
}

TEST_F(Damage, TheLogIsSaidAndChangesNothing) {
  begin();
  const fs::path log = folder_ / "a" / "log.jsonl";
  for (int i = 0; i < 20; ++i) {
    const std::string whole = read_text_file(log);
    flip(log, random_() % whole.size(), static_cast<int>(random_() % 8));
    testing::internal::CaptureStderr();
    expect_noticed_or_harmless("log");
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("log.jsonl: not the log"), std::string::npos) << said;
    std::ofstream(log, std::ios::binary) << whole;
  }
  EXPECT_EQ(num_noticed_, 0);
  fs::remove(log);
  testing::internal::CaptureStderr();
  expect_noticed_or_harmless("no log");
  EXPECT_NE(testing::internal::GetCapturedStderr().find("log.jsonl: not the log"), std::string::npos);
  EXPECT_EQ(num_noticed_, 0);
}

TEST_F(Damage, MissingFilesAreNamed) {
  begin();
  for (const fs::path& file :
       {checkpoint_ / "run.json", checkpoint_ / "state.safetensors", folder_ / "data" / "train-00000.tokens",
        folder_ / "data" / "held-out-00000.tokens", folder_ / "data" / "tokenizer.json",
        folder_ / "data" / "tokenizer_config.json"}) {
    fs::rename(file, folder_ / "kept");
    expect_error(file.filename());
    fs::rename(folder_ / "kept", file);
  }
  // Without the list of packed files what is missing shows in what the checkpoint says.
  fs::remove(folder_ / "data" / "checksums.json");
  EXPECT_EQ(resume_error(), "");
  for (const auto& [name, said] :
       {std::pair{"held-out-00000.tokens", "data, held-out split: missing now"},
        {"tokenizer_config.json", "tokenizer, tokenizer_config.json: missing now"}}) {
    fs::rename(folder_ / "data" / name, folder_ / "kept");
    expect_error(said);
    fs::rename(folder_ / "kept", folder_ / "data" / name);
  }
}

TEST_F(Damage, DataThatWasPackedAgainIsNamed) {
  begin();
  PackOptions pack;
  pack.files = {folder_ / "corpus.jsonl"};
  pack.tokenizer = "models/stories";
  pack.out = folder_ / "data";
  pack.held_out_share = 0.3;
  pack.seed = 9;
  pack.replace = true;
  pack_corpus(pack);
  expect_error("data, training split: other contents now");
}

TEST_F(Damage, ValuesThatNoTrainingContinuesFromAreNamed) {
  begin();
  const std::string state = read_text_file(checkpoint_ / "state.safetensors");
  make_old();
  EXPECT_EQ(resume_error(), "");
  for (const char* name : {"weight.embed.weight", "first.layers.1.attn.wq_a", "second.embed.weight"}) {
    for (const float value :
         {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
      rewrite_state([&](const std::string& tensor, std::vector<float>& values) {
        if (tensor == name) values[3] = value;
      });
      expect_error(std::string("\"") + name + "\": value 3 is");
      std::ofstream(checkpoint_ / "state.safetensors", std::ios::binary) << state;
    }
  }
  rewrite_state([&](const std::string& tensor, std::vector<float>& values) {
    if (tensor == "second.embed.weight") values[5] = -1;
  });
  expect_error("\"second.embed.weight\": value 5 is -1");
  rewrite_state([](const std::string&, std::vector<float>&) {}, "weight.layers.9.attn.wq_a");
  expect_error("tensor \"weight.layers.9.attn.wq_a\": no part of this run's state");
}

TEST_F(Damage, ImpossiblePositionsAreNamed) {
  begin();
  const nlohmann::ordered_json whole = run_json();
  for (const char* name : {"step", "updates", "skipped_in_row"}) {
    for (const std::int64_t value : {std::int64_t{1} << 62, std::int64_t{13}, std::int64_t{-1}}) {
      write_run_json(whole);
      make_old(name, value);
      expect_error(std::string("\"") + name + "\": expected a whole number");
      nlohmann::ordered_json changed = whole;
      changed[name] = value;
      write_run_json(changed);
      expect_error("run.json: its bytes do not match its checksum");
    }
  }
  write_run_json(whole);
  make_old("step", 5);
  expect_error("\"step\": expected 4, as the folder is called; found 5");
}

TEST_F(Damage, AZeroedStateNamesTheCheckpointBefore) {
  train("a", {.stop_step = 8});  // checkpoints after 5 and 8
  checkpoint_ = folder_ / "a" / "step-000000008";
  rewrite_state([](const std::string&, std::vector<float>& values) { std::ranges::fill(values, 0.0F); });
  expect_error("its bytes do not match their checksum; the file is damaged");
  expect_error("to continue from the checkpoint of step 5");
  fs::remove_all(checkpoint_);
  expect_same(train("b"), train("a", {.resume = true}));
}

TEST_F(Damage, WeightsThatAreNotFiniteAreNotWritten) {
  RunState state(config_);
  state.weights.values(0)[7] = std::numeric_limits<float>::infinity();
  const std::string error =
      error_of([&] { write_run_checkpoint(folder_ / "step-000000001", config_, state); });
  EXPECT_NE(error.find("\"weight.embed.weight\": value 7 is inf"), std::string::npos) << error;
  EXPECT_FALSE(fs::exists(folder_ / "step-000000001"));
}

TEST_F(Damage, WhatAKilledRunLeftIsRemoved) {
  begin();
  const fs::path run = folder_ / "a";
  std::ofstream(run / "log.jsonl.tmp-aB3xYz") << "{";
  for (const char* name :
       {".step-000000006.partial-abcdef", ".model.partial-abcdef", ".removed-step-000000002"}) {
    fs::create_directory(run / name);
    std::ofstream(run / name / "state.safetensors") << "x";
  }
  std::ofstream(run / "log.jsonl.mine") << "kept";
  EXPECT_EQ(resume_error(), "");
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(run))
    names.push_back(entry.path().filename());
  std::ranges::sort(names);
  EXPECT_EQ(names, (std::vector<std::string>{"lock", "log.jsonl", "log.jsonl.mine", "step-000000004"}));
}

}  // namespace
}  // namespace baleen
