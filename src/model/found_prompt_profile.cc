#include "model/found_prompt_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/gguf/gguf_model.h"

namespace baleen {
namespace {

constexpr std::size_t kMaxEncoderBytes = 1 << 20;

/// What stands behind `name` where a line of `text` assigns to it, up to the end of the text.
std::optional<std::string_view> assigned(std::string_view text, std::string_view name) {
  for (std::size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    if (at > 0 && text[at - 1] != '\n') continue;
    const std::string_view rest = text.substr(at + name.size());
    const std::string_view line = rest.substr(0, rest.find('\n'));
    const bool ends = !line.empty() && (line.front() == ' ' || line.front() == ':' || line.front() == '=');
    if (const std::size_t equals = line.find('='); ends && equals != std::string_view::npos)
      return rest.substr(equals + 1);
  }
  return std::nullopt;
}

bool is_low(std::string_view value) {
  value = value.substr(0, value.find('\n'));
  value.remove_prefix(std::min(value.find_first_not_of(" \t"), value.size()));
  return value.starts_with("\"low\"") || value.starts_with("'low'");
}

bool has_keys(std::string_view table, const std::array<std::string_view, 3>& keys) {
  table = table.substr(0, table.find("\n}"));
  return std::ranges::all_of(keys, [&](std::string_view key) {
    return table.find(fmt::format("\"{}\"", key)) != std::string_view::npos ||
           table.find(fmt::format("'{}'", key)) != std::string_view::npos;
  });
}

FoundPromptProfile profile_of_template(std::string_view text, std::string_view source) {
  constexpr std::string_view kOfficial = "Reasoning Effort: Beyond maximum",
                             kPreview = "Reasoning Effort: Absolute maximum";
  if (text.find(kOfficial) != std::string_view::npos)
    return {{PromptProfile::kOfficial, fmt::format("{}: \"{}\"", source, kOfficial)}, false};
  if (text.find(kPreview) != std::string_view::npos)
    return {{PromptProfile::kPreview, fmt::format("{}: \"{}\", not \"{}\"", source, kPreview, kOfficial)},
            false};
  return {{PromptProfile::kPreview, fmt::format("assumed: {} has no text of efforts", source)}, true};
}

}  // namespace

std::filesystem::path encoder_path() { return std::filesystem::path("encoding") / "encoding_dsv4.py"; }

FoundPromptProfile find_prompt_profile(const std::filesystem::path& folder) {
  if (const auto gguf = find_gguf(folder)) {
    const GgufModel model(*gguf);
    if (const auto text = model.keys().text(kGgufTemplateKey))
      return profile_of_template(*text, kGgufTemplateKey);
    return {{PromptProfile::kPreview, fmt::format("assumed: there is no {}", kGgufTemplateKey)}, true};
  }
  const std::string name = encoder_path().string();
  const auto assumed = [](std::string why) {
    return FoundPromptProfile{{PromptProfile::kPreview, "assumed: " + std::move(why)}, true};
  };
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(folder / encoder_path(), ignored)) {
    constexpr const char* kTemplate = "chat_template.jinja";
    if (!std::filesystem::is_regular_file(folder / kTemplate, ignored))
      return assumed(fmt::format("there is no {}", name));
    return profile_of_template(read_text_file(folder / kTemplate, kMaxEncoderBytes), kTemplate);
  }
  std::string text;
  try {
    text = read_text_file(folder / encoder_path(), kMaxEncoderBytes);
  } catch (const Error& error) {
    return assumed(error.what());
  }
  constexpr std::string_view kPrompts = "REASONING_EFFORT_PROMPTS", kDefault = "DEFAULT_REASONING_EFFORT",
                             kMax = "REASONING_EFFORT_MAX";
  const auto prompts = assigned(text, kPrompts), standard = assigned(text, kDefault);
  if (prompts && standard && is_low(*standard) && has_keys(*prompts, {"low", "high", "max"}))
    return {{PromptProfile::kOfficial,
             fmt::format("{}: {} with low, high and max, {} low", name, kPrompts, kDefault)},
            false};
  if (assigned(text, kMax)) return {{PromptProfile::kPreview, fmt::format("{}: {}", name, kMax)}, false};
  return assumed(fmt::format("{} has neither {} with a default of low nor {}", name, kPrompts, kMax));
}

}  // namespace baleen
