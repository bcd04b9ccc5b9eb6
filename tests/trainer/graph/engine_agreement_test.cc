// The trainer's float32 forward against the logits that the engine's `exact` precision is held to
// (tests/forward/make_goldens.py), main model and MTP block.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "checkpoint/checkpoint.h"
#include "model_files/matrix_codec.h"
#include "numeric/bf16.h"
#include "tests/support/golden_file.h"
#include "tests/support/random_checkpoint.h"
#include "trainer/graph/model.h"

namespace baleen {
namespace {

template <class From>
void copy_values(const TensorInfo& tensor, std::span<float> to, float (*convert)(From)) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    From value;
    std::memcpy(&value, tensor.bytes.data() + i * sizeof(From), sizeof(From));
    to[i] = convert(value);
  }
}

/// The values that a checkpoint's codes stand for.
Parameters<float> decoded(const Checkpoint& checkpoint, const ModelConfig& config, TokenTables& tables) {
  Parameters<float> weights(config);
  const StorageFormats formats = detect_formats(config, checkpoint);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const TensorSpec& spec = weights.spec(i);
    if (spec.is_matrix()) {
      const TensorInfo* scale = checkpoint.find(spec.name + ".scale");
      const StoredMatrix matrix{spec.shape[0],
                                spec.shape[1],
                                formats.of(spec),
                                formats.scale_of(spec),
                                checkpoint.at(spec.name + ".weight").bytes,
                                scale != nullptr ? scale->bytes : std::span<const std::byte>()};
      for (std::int64_t panel = 0; panel < matrix.num_panels(); ++panel) {
        decode_panel(
            matrix, panel,
            weights.values(i).subspan(static_cast<std::size_t>(panel * kPanelRows * matrix.cols),
                                      static_cast<std::size_t>(matrix.panel_rows(panel) * matrix.cols)));
      }
    } else if (spec.storage == Storage::kI64) {
      tables.experts.emplace_back(static_cast<std::size_t>(spec.num_elements()));
      std::memcpy(tables.experts.back().data(), checkpoint.at(spec.name).bytes.data(),
                  tables.experts.back().size() * 8);
    } else if (spec.storage == Storage::kF32) {
      copy_values<float>(checkpoint.at(spec.name), weights.values(i), [](float value) { return value; });
    } else {
      copy_values<Bf16Bits>(checkpoint.at(spec.name), weights.values(i),
                            [](Bf16Bits bits) { return bf16_to_float(bits); });
    }
  }
  return weights;
}

/// Largest error of a row's norm, and of the rows that the golden has whole: both relative to the row's norm.
double worst_error(const test::GoldenFile& golden, const std::string& name, const std::vector<float>& got) {
  const std::vector<float> norms = golden.floats(name + ".norm");
  const std::vector<std::int32_t> positions = golden.ints("positions");
  const std::vector<float> rows = golden.floats(name);
  const std::size_t width = got.size() / norms.size();
  double worst = 0;
  for (std::size_t t = 0; t < norms.size(); ++t) {
    double squares = 0;
    for (std::size_t v = 0; v < width; ++v) squares += std::pow(got[t * width + v], 2);
    worst = std::max(worst, std::fabs(std::sqrt(squares) - norms[t]) / norms[t]);
  }
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const auto t = static_cast<std::size_t>(positions[i]);
    double squares = 0;
    for (std::size_t v = 0; v < width; ++v) squares += std::pow(got[t * width + v] - rows[i * width + v], 2);
    worst = std::max(worst, std::sqrt(squares) / norms[t]);
  }
  testing::Test::RecordProperty(name, std::to_string(worst * 1e6) + "e-6");
  return worst;
}

TEST(TrainerForward, HasTheLogitsOfExactPrecision) {
  const test::GoldenFile golden("tests/forward/goldens/tiny-flash.safetensors");
  const ModelConfig config = preset_config("tiny-flash");
  const test::RandomCheckpoint files(config, static_cast<std::uint64_t>(golden.scalar("seed")));
  TokenTables tables;
  const Parameters<float> weights = decoded(Checkpoint(files.path()), config, tables);
  ThreadPool pool(2);
  TrainingGraph<float> graph(config, tables, pool);
  TrainingBatch batch;
  batch.tokens = golden.ints("tokens");
  batch.is_target.assign(batch.tokens.size(), 1);
  batch.documents = {{0, batch.num_tokens()}};
  const PassOptions options{.scaled_rope = true};
  EXPECT_LE(worst_error(golden, "logits", graph.logits(weights, batch, options)), 1e-5);
  EXPECT_LE(worst_error(golden, "mtp_logits", graph.logits(weights, batch, options, LogitsOf::kMtp)), 1e-5);
}

}  // namespace
}  // namespace baleen
