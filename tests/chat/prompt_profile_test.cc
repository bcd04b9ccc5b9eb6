// The table of profiles: that its rows refer to what they have, the words of the APIs, and efforts that a
// profile has not. What prompts become of efforts: golden_test.
#include "chat/prompt_profile.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "chat/format.h"
#include "chat/render.h"
#include "sha256.h"

namespace baleen {
namespace {

constexpr PromptProfile kPreview = PromptProfile::kPreview, kOfficial = PromptProfile::kOfficial,
                        kV41 = PromptProfile::kV41;

TEST(PromptProfile, NamesGoThereAndBack) {
  EXPECT_EQ(prompt_profile_name(PromptProfile::kPreview), "preview");
  EXPECT_EQ(prompt_profile_name(PromptProfile::kOfficial), "official");
  EXPECT_EQ(prompt_profile_of("official"), PromptProfile::kOfficial);
  EXPECT_EQ(prompt_profile_name(kV41), "v4.1");
  EXPECT_EQ(prompt_profile_of("v4.1"), kV41);
  EXPECT_EQ(prompt_profile_of("auto"), std::nullopt);
}

TEST(PromptProfile, RowsNameEffortsThatTheyHave) {
  for (const PromptRules& rules : all_prompt_rules()) {
    const PromptProfile profile{rules.format};
    EXPECT_TRUE(effort_text(profile, api_default(profile))) << rules.name;
    EXPECT_EQ(effort_text(profile, "").value(), effort_text(profile, encoder_default(profile)).value());
    EXPECT_EQ(rules.requested.front().asked, "none");
    EXPECT_EQ(rules.requested.front().effort, "");
    const std::vector<std::string_view> names = effort_names(profile);
    std::ptrdiff_t last = -1;
    for (const auto& [asked, effort] : rules.requested) {
      const std::ptrdiff_t strength = effort.empty() ? -1 : std::ranges::find(names, effort) - names.begin();
      EXPECT_LT(strength, std::ssize(names)) << rules.name << " " << asked;
      EXPECT_GE(strength, last) << rules.name << ": " << asked << " asks for less than the word before";
      last = strength;
      for (const PromptRules& other : all_prompt_rules())
        EXPECT_TRUE(requested_effort({other.format}, asked)) << other.name << " " << asked;
    }
  }
}

TEST(PromptProfile, TextsOfEfforts) {
  EXPECT_EQ(effort_text(kPreview, "high").value(), "");
  EXPECT_EQ(effort_text(kPreview, "max").value(), chat_format::kEffortMax);
  EXPECT_EQ(effort_text(kOfficial, "low").value(), "");
  EXPECT_EQ(effort_text(kOfficial, "high").value(), chat_format::kEffortMax);
  EXPECT_EQ(effort_text(kOfficial, "max").value(), chat_format::kEffortBeyond);
  EXPECT_EQ(effort_text(kOfficial, "").value(), "");
}

// The digest is the specification's.
TEST(PromptProfile, TextsOfNumbers) {
  EXPECT_EQ(effort_text(kV41, "75").value().size(), 91u);
  EXPECT_EQ(test::sha256(effort_text(kV41, "75").value()),
            "86fdea28dfcf6ee1cffe3c13c63f9472d1c250d444d06666b710530963194231");
  EXPECT_EQ(effort_text(kV41, "high").value(), effort_text(kV41, "75").value());
  EXPECT_EQ(effort_text(kV41, "").value(), effort_text(kV41, "75").value());
  EXPECT_EQ(effort_text(kV41, "low").value(), effort_text(kV41, "50").value());
  EXPECT_EQ(effort_text(kV41, "max").value(), effort_text(kV41, "100").value());
  EXPECT_TRUE(effort_text(kV41, "1").value().starts_with("Reasoning Effort: 1 (range 1-100, "));
  for (const char* other : {"0", "101", "-1", "01", "1.5", "7 ", "xhigh", "medium", "none", "HIGH"}) {
    const Result<std::string> text = effort_text(kV41, other);
    EXPECT_EQ(text ? "" : text.error(),
              "expected low, high, max or a number from 1 to 100 (prompt profile v4.1), found \"" +
                  std::string(other) + "\"");
  }
}

// As the encoder of the pre-release has it.
TEST(PromptProfile, ACheckpointsOwnNumbers) {
  const PromptProfile profile{PromptFormat::kV41, {.numbers = {25, 50, 75, 100}, .standard = 1}};
  EXPECT_EQ(effort_names(profile), (std::vector<std::string_view>{"low", "high", "xhigh", "max"}));
  EXPECT_EQ(effort_text(profile, "").value(), effort_text(kV41, "50").value());
  EXPECT_EQ(effort_text(profile, "xhigh").value(), effort_text(kV41, "75").value());
  EXPECT_EQ(requested_effort(profile, "xhigh")->effort, "xhigh");
  EXPECT_EQ(requested_effort(profile, "medium")->effort, "high");
  EXPECT_EQ(requested_effort(profile, "37")->effort, "37");
  EXPECT_EQ(effort_number(PromptProfile::kOfficial, "low"), std::nullopt);
}

TEST(PromptProfile, DefaultsAreThoseOfEncoderAndApi) {
  EXPECT_EQ(encoder_default(kOfficial), "low");
  EXPECT_EQ(api_default(kOfficial), "high");
  EXPECT_EQ(api_default(kPreview), "high");
  EXPECT_EQ(encoder_default(kV41), "high");
  EXPECT_EQ(api_default(kV41), "high");
}

TEST(PromptProfile, WordsOfTheApis) {
  const struct {
    const char* word;
    const char* preview;
    const char* official;
  } kWords[] = {{"none", "", ""},           {"minimal", "", "low"},   {"low", "high", "low"},
                {"medium", "high", "high"}, {"high", "high", "high"}, {"xhigh", "max", "high"},
                {"max", "max", "max"},      {"ultra", "max", "max"}};
  for (const auto& [word, of_preview, of_official] : kWords) {
    ASSERT_TRUE(requested_effort(kPreview, word)) << word;
    EXPECT_EQ(requested_effort(kPreview, word)->effort, of_preview) << word;
    EXPECT_EQ(requested_effort(kOfficial, word)->effort, of_official) << word;
    EXPECT_EQ(requested_effort(kV41, word)->effort, of_official) << word;
  }
  for (const PromptProfile& profile : {kPreview, kOfficial, kV41}) {
    EXPECT_FALSE(requested_effort(profile, "huge"));
    EXPECT_FALSE(requested_effort(profile, ""));
  }
  EXPECT_FALSE(requested_effort(kOfficial, "37"));
}

TEST(PromptProfile, AnEffortOfAnotherProfileIsRefusedInEitherMode) {
  const std::vector<Message> messages{{.role = Role::kUser, .content = "u"}};
  for (const ThinkingMode mode : {ThinkingMode::kChat, ThinkingMode::kThinking}) {
    const auto error = [&](PromptProfile profile, const std::string& effort) {
      const RenderOptions options{.profile = profile, .thinking_mode = mode, .reasoning_effort = effort};
      const Result<std::string> prompt = render_prompt(messages, options);
      return prompt ? "" : prompt.error();
    };
    EXPECT_EQ(error(PromptProfile::kPreview, "low"),
              "reasoning_effort: expected high or max (prompt profile preview), found \"low\"");
    EXPECT_EQ(error(PromptProfile::kOfficial, "medium"),
              "reasoning_effort: expected low, high or max (prompt profile official), found \"medium\"");
    EXPECT_EQ(error(PromptProfile::kOfficial, "low"), "");
  }
  EXPECT_EQ(not_an_effort(kPreview, "low", "off").message,
            "expected off, high or max (prompt profile preview), found \"low\"");
}

}  // namespace
}  // namespace baleen
