// The table of profiles: that its rows refer to what they have, the words of the APIs, and efforts that a
// profile has not. What prompts become of efforts: golden_test.
#include "chat/prompt_profile.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "chat/format.h"
#include "chat/render.h"

namespace baleen {
namespace {

const PromptRules& preview() { return prompt_rules(PromptProfile::kPreview); }
const PromptRules& official() { return prompt_rules(PromptProfile::kOfficial); }

TEST(PromptProfile, NamesGoThereAndBack) {
  EXPECT_EQ(prompt_profile_name(PromptProfile::kPreview), "preview");
  EXPECT_EQ(prompt_profile_name(PromptProfile::kOfficial), "official");
  EXPECT_EQ(prompt_profile_of("official"), PromptProfile::kOfficial);
  EXPECT_EQ(prompt_profile_of("auto"), std::nullopt);
}

TEST(PromptProfile, RowsNameEffortsThatTheyHave) {
  for (const PromptRules& rules : all_prompt_rules()) {
    EXPECT_TRUE(effort_text(rules, rules.api_default)) << rules.name;
    EXPECT_EQ(effort_text(rules, "").value(), effort_text(rules, rules.encoder_default).value());
    EXPECT_EQ(rules.requested.front().asked, "none");
    EXPECT_EQ(rules.requested.front().effort, "");
    std::ptrdiff_t last = -1;
    for (const auto& [asked, effort] : rules.requested) {
      const auto found = std::ranges::find(rules.efforts, effort, &ReasoningEffort::name);
      const std::ptrdiff_t strength = effort.empty() ? -1 : found - rules.efforts.begin();
      EXPECT_LT(strength, std::ssize(rules.efforts)) << rules.name << " " << asked;
      EXPECT_GE(strength, last) << rules.name << ": " << asked << " asks for less than the word before";
      last = strength;
      EXPECT_NE(requested_effort(all_prompt_rules().front(), asked), nullptr) << asked;
    }
  }
}

TEST(PromptProfile, TextsOfEfforts) {
  EXPECT_EQ(effort_text(preview(), "high").value(), "");
  EXPECT_EQ(effort_text(preview(), "max").value(), chat_format::kEffortMax);
  EXPECT_EQ(effort_text(official(), "low").value(), "");
  EXPECT_EQ(effort_text(official(), "high").value(), chat_format::kEffortMax);
  EXPECT_EQ(effort_text(official(), "max").value(), chat_format::kEffortBeyond);
  EXPECT_EQ(effort_text(official(), "").value(), "");
}

TEST(PromptProfile, DefaultsAreThoseOfEncoderAndApi) {
  EXPECT_EQ(official().encoder_default, "low");
  EXPECT_EQ(official().api_default, "high");
  EXPECT_EQ(preview().api_default, "high");
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
    ASSERT_NE(requested_effort(preview(), word), nullptr) << word;
    EXPECT_EQ(requested_effort(preview(), word)->effort, of_preview) << word;
    EXPECT_EQ(requested_effort(official(), word)->effort, of_official) << word;
  }
  EXPECT_EQ(requested_effort(official(), "huge"), nullptr);
  EXPECT_EQ(requested_effort(official(), ""), nullptr);
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
  EXPECT_EQ(not_an_effort(preview(), "low", "off").message,
            "expected off, high or max (prompt profile preview), found \"low\"");
}

}  // namespace
}  // namespace baleen
