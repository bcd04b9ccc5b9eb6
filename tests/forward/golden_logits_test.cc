// Whole-model logits in `exact` against the NumPy forward pass (make_goldens.py says how the goldens were
// made), of checkpoints in the form of each release and of its repacks.
#include <gtest/gtest.h>

#include <cmath>

#include "model_files/convert.h"
#include "tests/support/compare.h"
#include "tests/support/golden_file.h"
#include "tests/support/random_checkpoint.h"
#include "tests/support/releases.h"
#include "tests/support/run_sequence.h"

namespace baleen {
namespace {

/// float32 sums in another order than NumPy's. Every position of the goldens stays within 2e-6.
constexpr double kRelativeError = 1e-5;

double norm(std::span<const float> values) {
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value) * value;
  return std::sqrt(squares);
}

/// `got` [T, V] against the array called `name`: in full where the golden has it, elsewhere by norm and by
/// the part of the difference that lies in the golden's random directions, scaled up to the whole.
void expect_golden(const test::GoldenFile& golden, const std::string& name, std::span<const float> got) {
  const std::vector<float> norms = golden.floats(name + ".norm"),
                           projections = golden.floats(name + ".projection");
  const std::vector<float> directions = golden.floats("directions");
  const std::size_t num_directions = projections.size() / norms.size(),
                    width = directions.size() / num_directions;
  ASSERT_EQ(got.size(), norms.size() * width);
  double worst = 0;
  for (std::size_t t = 0; t < norms.size(); ++t) {
    const auto row = got.subspan(t * width, width);
    double squares = 0;
    for (std::size_t i = 0; i < num_directions; ++i) {
      double projection = 0;
      for (std::size_t v = 0; v < width; ++v)
        projection += static_cast<double>(row[v]) * directions[i * width + v];
      squares += std::pow(projection - projections[t * num_directions + i], 2);
    }
    const double seen = std::sqrt(squares * static_cast<double>(width) / static_cast<double>(num_directions));
    worst = std::max({worst, seen / norms[t], std::fabs(norm(row) - norms[t]) / norms[t]});
  }
  EXPECT_LE(worst, kRelativeError) << name;
  testing::Test::RecordProperty(name, std::to_string(worst * 1e6) + "e-6");

  const std::vector<std::int32_t> positions = golden.ints("positions");
  const std::vector<float> rows = golden.floats(name);
  for (std::size_t i = 0; i < positions.size(); ++i) {
    EXPECT_CLOSE(got.subspan(static_cast<std::size_t>(positions[i]) * width, width),
                 std::span(rows).subspan(i * width, width), {.norm = kRelativeError})
        << name << " at position " << positions[i];
  }
}

/// The golden's weights in the form of another release.
struct Form {
  const char* name;
  const char* golden;
  const char* preset;
  bool has_fp8_experts = false;
  bool drafts = true;
  void (*change)(test::EditedCheckpoint&) = nullptr;
};

const Form kForms[] = {
    {"preview", "tiny-flash", "tiny-flash"},
    {"real_heads", "tiny-real-heads", "tiny-real-heads"},
    {.name = "dspark",
     .golden = "tiny-flash",
     .preset = "tiny-flash",
     .drafts = false,
     .change = test::make_dspark},
    {.name = "vision",
     .golden = "tiny-flash",
     .preset = "tiny-flash",
     .drafts = false,
     .change =
         [](auto& c) {
           test::make_dspark(c);
           test::add_vision(c);
         }},
    {.name = "fp8_experts",
     .golden = "tiny-flash",
     .preset = "tiny-flash",
     .has_fp8_experts = true,
     .change = [](auto& c) { c.config.erase("expert_dtype"); }},
    {.name = "fp8_experts_with_dspark",
     .golden = "tiny-flash",
     .preset = "tiny-flash",
     .has_fp8_experts = true,
     .drafts = false,
     .change = test::make_dspark},
    {.name = "base",
     .golden = "tiny-flash",
     .preset = "tiny-flash",
     .has_fp8_experts = true,
     .change =
         [](auto& c) {
           test::make_scales_f32(c);
           test::add_vocabulary_copies(c);
         }},
    {.name = "nvfp4_experts_and_an_mxfp4_draft_head",
     .golden = "tiny-flash-nvfp4",
     .preset = "tiny-flash",
     .change = test::make_nvfp4},
    {.name = "base_with_odd_scales",
     .golden = "tiny-flash-f32-scales",
     .preset = "tiny-flash",
     .has_fp8_experts = true,
     .change = [](auto& c) { test::make_scales_f32(c, test::odd_factor); }},
};

class GoldenLogits : public testing::TestWithParam<Form> {};

TEST_P(GoldenLogits, ExactAgreesAtEveryPosition) {
  const Form& form = GetParam();
  const test::GoldenFile golden(fmt::format("tests/forward/goldens/{}.safetensors", form.golden));
  const test::RandomCheckpoint made(form.preset, static_cast<std::uint64_t>(golden.scalar("seed")));
  ASSERT_EQ(test::checksum(made.weights()), golden.scalar("checksum"))
      << "`init` writes other weights than it did";
  const test::TemporaryFolder folder;
  std::filesystem::path model = made.path();
  if (form.has_fp8_experts) {
    ThreadPool pool(1);
    ASSERT_TRUE(convert_checkpoint(model, folder / "fp8", {.experts = WeightFormat::kFp8}, pool).lossless());
    model = folder / "fp8";
  }
  if (form.change != nullptr) {
    test::EditedCheckpoint changed(model);
    form.change(changed);
    model = folder / "changed";
    changed.write(model);
  }
  const std::vector<TokenId> tokens = golden.ints("tokens");
  const auto num_tokens = static_cast<std::int64_t>(tokens.size());
  Engine engine(model, {.precision = Precision::kExact,
                        .num_threads = 2,
                        .max_batch_tokens = num_tokens,
                        .max_logit_rows = num_tokens,
                        .cache_tokens = num_tokens,
                        .drafts = form.drafts});
  const test::SequenceLogits logits = test::run_sequence(engine, tokens, tokens.size());
  expect_golden(golden, "logits", logits.main);
  if (form.drafts) expect_golden(golden, "mtp_logits", logits.mtp);
}

INSTANTIATE_TEST_SUITE_P(Forms, GoldenLogits, testing::ValuesIn(kForms),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace baleen
