// Whole-model logits in `exact` against the NumPy forward pass (make_goldens.py says how the goldens were
// made), of checkpoints in the form of each release and of its repacks.
#include <gtest/gtest.h>

#include "model_files/convert.h"
#include "tests/support/golden_logits.h"
#include "tests/support/random_checkpoint.h"
#include "tests/support/releases.h"
#include "tests/support/run_sequence.h"

namespace baleen {
namespace {

using test::expect_golden;

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
