// Which prompts a checkpoint's model was trained on, by the encoder in its folder.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "model/found_prompt_profile.h"
#include "tests/model/written_releases.h"
#include "tests/support/releases.h"

namespace baleen {
namespace {

using test::EditedCheckpoint;

class PromptProfiles : public WrittenReleases {};

TEST_F(PromptProfiles, PromptProfileIsTheEncoders) {
  struct Encoder {
    const char* text;
    PromptProfile profile;
    const char* evidence;
  };
  constexpr const char* kUnknown =
      "assumed: encoding/encoding_dsv4.py has neither REASONING_EFFORT_PROMPTS with a default of low nor "
      "REASONING_EFFORT_MAX";
  const Encoder encoders[] = {
      {test::kOfficialEncoder, PromptProfile::kOfficial,
       "encoding/encoding_dsv4.py: REASONING_EFFORT_PROMPTS with low, high and max, DEFAULT_REASONING_EFFORT "
       "low"},
      {test::kPreviewEncoder, PromptProfile::kPreview, "encoding/encoding_dsv4.py: REASONING_EFFORT_MAX"},
      {"# not REASONING_EFFORT_MAX = 1\nREASONING_EFFORT_MAXIMUM = 2\n", PromptProfile::kPreview, kUnknown},
      // Another default is another contract.
      {"REASONING_EFFORT_PROMPTS = {\n  'low': '', 'high': 'a', 'max': 'b'\n}\nDEFAULT_REASONING_EFFORT = "
       "'high'\n",
       PromptProfile::kPreview, kUnknown},
      {nullptr, PromptProfile::kPreview, "assumed: there is no encoding/encoding_dsv4.py"},
  };
  for (const Encoder& encoder : encoders) {
    const auto model = written(EditedCheckpoint(preview()));
    if (encoder.text != nullptr) test::write_encoder(model, encoder.text);
    const FoundPromptProfile found = open_model_folder(model).kind.prompts;
    EXPECT_EQ(found.profile.value, encoder.profile) << encoder.evidence;
    EXPECT_EQ(found.profile.evidence, encoder.evidence);
    EXPECT_EQ(found.is_assumed, found.profile.evidence.starts_with("assumed: "));
    const FoundPromptProfile asked = open_model_folder(model, PromptProfile::kOfficial).kind.prompts;
    EXPECT_EQ(asked.profile.value, PromptProfile::kOfficial);
    EXPECT_FALSE(asked.is_assumed);
  }
}

TEST_F(PromptProfiles, V41sPromptProfileHasTheNumbersOfItsEncoder) {
  const std::string assumed =
      "assumed: encoding/encoding.py has no REASONING_EFFORT_MAPPINGS of low, high and max from 1 to 100, or "
      "no "
      "DEFAULT_REASONING_EFFORT that is one of them; efforts are V4.1-Flash's: low 50, high 75, max 100, "
      "default high";
  const auto table = [](const std::string& entries, const std::string& standard = "\"high\"") {
    return "REASONING_EFFORT_MAPPINGS: Dict[str, int] = {" + entries +
           "}\nDEFAULT_REASONING_EFFORT = " + standard + "\n";
  };
  const struct {
    std::string text;
    EffortNumbers numbers;
    std::string evidence;
  } kEncoders[] = {
      {test::kV41Encoder,
       {},
       "encoding/encoding.py: REASONING_EFFORT_MAPPINGS low 50, high 75, max 100, default high"},
      // The pre-release's.
      {table("\n  'low': 25,  # little\n  'high': 50,\n  'xhigh': 75,\n  'max': 100\n",
             "'high'  # as before"),
       {.numbers = {25, 50, 75, 100}, .standard = 1},
       "encoding/encoding.py: REASONING_EFFORT_MAPPINGS low 25, high 50, xhigh 75, max 100, default high"},
      {table("\"low\": 1, \"high\": 2, \"max\": 3,", "\"low\""),
       {.numbers = {1, 2, 0, 3}, .standard = 0},
       "encoding/encoding.py: REASONING_EFFORT_MAPPINGS low 1, high 2, max 3, default low"},
      {table("\"low\": 50, \"high\": 75, \"max\": 101"), {}, assumed},
      {table("\"low\": 50, \"high\": 75"), {}, assumed},
      {table("\"low\": 50, \"high\": 75, \"max\": 100, \"huge\": 9"), {}, assumed},
      {table("\"low\": LOW, \"high\": 75, \"max\": 100"), {}, assumed},
      {table("\"low\": 50, \"high\": 75, \"max\": 100", "\"xhigh\""), {}, assumed},
      {table("\"low\": 50, \"high\": 75, \"max\": 100", "75"), {}, assumed},
      {"REASONING_EFFORT_MAPPINGS = load()\n", {}, assumed},
      {"", {}, assumed},
  };
  for (const auto& [text, numbers, evidence] : kEncoders) {
    const auto model = written(EditedCheckpoint(preview()));
    test::write_encoder(model, text.c_str(), "encoding.py");
    const FoundPromptProfile found = find_prompt_profile(model, /*is_v41=*/true);
    EXPECT_EQ(found.profile.value, (PromptProfile{PromptFormat::kV41, numbers})) << text;
    EXPECT_EQ(found.profile.evidence, evidence);
    EXPECT_EQ(found.is_assumed, evidence == assumed);
    const FoundPromptProfile same = imposed_profile(PromptProfile::kV41, found);
    EXPECT_EQ(same.profile.value.numbers, numbers);
    EXPECT_FALSE(same.is_assumed);
    EXPECT_EQ(imposed_profile(PromptProfile::kOfficial, found).profile.value, PromptProfile::kOfficial);
  }
  // By config.json alone, by the encoder alone, and with V4's encoder beside its own.
  const auto model = written(EditedCheckpoint(preview()));
  EXPECT_EQ(find_prompt_profile(model, true).profile.evidence,
            "assumed: there is no encoding/encoding.py; efforts are V4.1-Flash's: low 50, high 75, max 100, "
            "default high");
  test::write_encoder(model, test::kV41Encoder, "encoding.py");
  EXPECT_EQ(find_prompt_profile(model).profile.value, PromptProfile::kV41);
  test::write_encoder(model, test::kPreviewEncoder);
  EXPECT_EQ(find_prompt_profile(model).profile.value, PromptProfile::kPreview);
  EXPECT_EQ(find_prompt_profile(model, true).profile.value, PromptProfile::kV41);
  std::ofstream(model / "config.json") << R"({"model_type": "deepseek_v41"})";
  EXPECT_EQ(find_prompt_profile(model).profile.value, PromptProfile::kV41);
}

}  // namespace
}  // namespace baleen
