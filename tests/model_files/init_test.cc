// Random checkpoints: same seed, same bytes on any number of threads, and weights of the promised scale.
#include "model_files/init.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/file.h"
#include "model/model_folder.h"
#include "model/presets.h"
#include "model/tensor_table.h"
#include "model/weight_checks.h"
#include "model_files/matrix_codec.h"
#include "model_files/random.h"
#include "tests/support/temporary_folder.h"

namespace baleen {
namespace {

using test::TemporaryFolder;

std::string weights_text(const std::filesystem::path& folder) {
  return read_text_file(folder / "model.safetensors");
}

void init(const std::filesystem::path& folder, std::uint64_t seed, int num_threads) {
  ThreadPool pool(num_threads);
  init_checkpoint(folder, preset_config("tiny-flash"), {.seed = seed}, pool);
}

TEST(Init, DependsOnTheSeedAndNotOnThreads) {
  const TemporaryFolder folder;
  init(folder / "a", 7, 1);
  init(folder / "b", 7, 3);
  init(folder / "c", 8, 3);
  EXPECT_TRUE(weights_text(folder / "a") == weights_text(folder / "b"));
  EXPECT_FALSE(weights_text(folder / "a") == weights_text(folder / "c"));
}

TEST(Init, TensorsFitTheConfig) {
  const TemporaryFolder folder;
  ThreadPool pool(2);
  for (const char* preset : {"tiny-flash", "tiny-real-heads"}) {
    const auto path = folder / preset;
    init_checkpoint(path, preset_config(preset), {}, pool);
    EXPECT_EQ(load_config(path), preset_config(preset));
    const Checkpoint checkpoint(path);
    EXPECT_EQ(mismatches(load_config(path), checkpoint), std::vector<std::string>{});
    for (const TensorInfo& tensor : checkpoint.tensors()) {
      if (tensor.name.ends_with(".scale")) {
        EXPECT_NO_THROW(check_scale(tensor));
      }
      if (tensor.name.ends_with("tid2eid")) {
        EXPECT_NO_THROW(check_hash_table(tensor, preset_config(preset)));
      }
    }
  }
}

struct Moments {
  double mean = 0;
  double deviation = 0;
};

Moments moments(std::span<const float> values) {
  double sum = 0, squares = 0;
  for (const float value : values) sum += value, squares += static_cast<double>(value) * value;
  const auto count = static_cast<double>(values.size());
  return {sum / count, std::sqrt(squares / count - sum / count * sum / count)};
}

TEST(Init, WeightsHaveTheirScale) {
  const TemporaryFolder folder;
  init(folder / "m", 1, 2);
  const Checkpoint checkpoint(folder / "m");
  const auto decoded = [&](const std::string& stem, std::int64_t rows, std::int64_t cols,
                           WeightFormat format) {
    StoredMatrix matrix{rows, cols, format, DType::kF8E8M0, checkpoint.at(stem + ".weight").bytes, {}};
    if (format != WeightFormat::kBF16) matrix.scale = checkpoint.at(stem + ".scale").bytes;
    std::vector<float> values(static_cast<std::size_t>(rows * cols));
    for (std::int64_t panel = 0; panel < matrix.num_panels(); ++panel) {
      decode_panel(matrix, panel,
                   std::span(values).subspan(static_cast<std::size_t>(panel * kPanelRows * cols)));
    }
    return moments(values);
  };
  // 128 x 256 elements and more: three standard errors of the deviation are 1.2 %, FP4 rounding adds about 1
  // %.
  EXPECT_NEAR(decoded("embed", 512, 256, WeightFormat::kBF16).deviation, 1.0, 0.02);
  EXPECT_NEAR(decoded("head", 512, 256, WeightFormat::kBF16).deviation, 3.0 / 16, 0.004);
  EXPECT_NEAR(decoded("layers.0.attn.wq_a", 128, 256, WeightFormat::kFp8).deviation, 1.0 / 16, 0.002);
  EXPECT_NEAR(decoded("layers.0.ffn.experts.3.w1", 128, 256, WeightFormat::kFp4).deviation, 1.0 / 16, 0.003);
  EXPECT_NEAR(decoded("layers.2.ffn.gate", 8, 256, WeightFormat::kBF16).deviation, 2.0 / 16, 0.01);
  const Moments norm = decoded("norm", 1, 256, WeightFormat::kBF16);
  EXPECT_NEAR(norm.mean, 1.0, 0.03);
  EXPECT_NEAR(norm.deviation, 0.1, 0.03);
}

TEST(Init, RandomNumbersAreSpread) {
  std::vector<float> values(100'000);
  const CounterRandom random(3, "x");
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = random.normal(i);
  EXPECT_NEAR(moments(values).mean, 0, 0.015);
  EXPECT_NEAR(moments(values).deviation, 1, 0.015);
}

TEST(Init, RefusesAFolderThatIsNotEmpty) {
  const TemporaryFolder folder;
  AtomicFileWriter writer(folder / "precious.txt");
  writer.commit();
  EXPECT_THROW(init(folder.path(), 1, 1), Error);
  EXPECT_THROW(init(folder / "precious.txt", 1, 1), Error);
  ThreadPool pool(1);
  EXPECT_THROW(init_checkpoint(folder.path(), preset_config("tiny-flash"), {.force = true}, pool), Error);
  EXPECT_TRUE(std::filesystem::exists(folder / "precious.txt"));
}

TEST(Init, CopiesATokenizerIfAsked) {
  const TemporaryFolder folder;
  ThreadPool pool(1);
  std::filesystem::create_directory(folder / "t");
  const InitOptions options{.tokenizer = folder / "t"};
  EXPECT_THROW(init_checkpoint(folder / "m", preset_config("tiny-flash"), options, pool), Error);
  EXPECT_FALSE(std::filesystem::exists(folder / "m"));
  AtomicFileWriter writer(folder / "t" / "tokenizer.json");
  writer.write("{\"a\": 1}");
  writer.commit();
  init_checkpoint(folder / "m", preset_config("tiny-flash"), options, pool);
  EXPECT_EQ(read_text_file(folder / "m" / "tokenizer.json"), "{\"a\": 1}");
}

}  // namespace
}  // namespace baleen
