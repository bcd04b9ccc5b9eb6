#include "model/found_prompt_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/number.h"
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

constexpr std::string_view kBlanks = " \t\r\n";

std::string_view trimmed(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

/// A word between quotation marks that is all of `value`; empty for anything else.
std::string_view quoted_word(std::string_view value) {
  const bool is_quoted =
      value.size() > 2 && value.front() == value.back() && (value.front() == '"' || value.front() == '\'');
  return is_quoted ? value.substr(1, value.size() - 2) : std::string_view();
}

/// The word that a line assigns.
std::string_view assigned_word(std::string_view value) {
  value = value.substr(0, value.find('\n'));
  return quoted_word(trimmed(value.substr(0, value.find('#'))));
}

bool has_keys(std::string_view table, const std::array<std::string_view, 3>& keys) {
  table = table.substr(0, table.find("\n}"));
  return std::ranges::all_of(keys, [&](std::string_view key) {
    return table.find(fmt::format("\"{}\"", key)) != std::string_view::npos ||
           table.find(fmt::format("'{}'", key)) != std::string_view::npos;
  });
}

/// The table `{"low": 50, ...}` that `text` begins with, of words that are known, and low, high and max among
/// them; nothing where it is anything else.
std::optional<EffortNumbers> effort_table(std::string_view text) {
  const std::size_t begin = text.find('{'), end = text.find('}');
  if (end == std::string_view::npos || begin > end || !trimmed(text.substr(0, begin)).empty())
    return std::nullopt;
  std::string table;  // without comments
  for (std::string_view rest = text.substr(begin + 1, end - begin - 1); !rest.empty();) {
    const std::string_view line = rest.substr(0, std::min(rest.find('\n'), rest.size() - 1) + 1);
    table += line.substr(0, line.find('#'));
    rest.remove_prefix(line.size());
  }
  EffortNumbers found{.numbers = {}};
  for (std::string_view rest = table; !trimmed(rest).empty();) {
    const std::string_view entry = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(entry.size() + 1, rest.size()));
    const std::size_t colon = entry.find(':');
    if (colon == std::string_view::npos) return std::nullopt;
    const auto* const word = std::ranges::find(kEffortWords, quoted_word(trimmed(entry.substr(0, colon))));
    const Result<std::int64_t> number =
        read_whole(std::string(trimmed(entry.substr(colon + 1))), {kMinEffort, kMaxEffort});
    if (word == kEffortWords.end() || !number) return std::nullopt;
    found.numbers[static_cast<std::size_t>(word - kEffortWords.begin())] =
        static_cast<std::uint8_t>(number.value());
  }
  for (std::size_t i = 0; i < kEffortWords.size(); ++i) {
    if (found.numbers[i] == 0 && kEffortWords[i] != "xhigh") return std::nullopt;
  }
  return found;
}

std::string numbers_text(const PromptProfile& profile) {
  std::string text;
  for (const std::string_view name : effort_names(profile))
    text += fmt::format("{} {}, ", name, *effort_number(profile, name));
  return text + fmt::format("default {}", encoder_default(profile));
}

/// What each release's chat template has in it and those before it have not.
struct TemplateMark {
  std::string_view text;
  PromptProfile profile;
};
constexpr std::array<TemplateMark, 3> kTemplateMarks = {
    {{"(range 1-100, the higher the value", PromptProfile::kV41},
     {"Reasoning Effort: Beyond maximum", PromptProfile::kOfficial},
     {"Reasoning Effort: Absolute maximum", PromptProfile::kPreview}}};

FoundPromptProfile assumed(const PromptProfile& profile, std::string_view why) {
  return {{profile, fmt::format("assumed: {}", why)}, true};
}

FoundPromptProfile profile_of_template(std::string_view text, std::string_view source) {
  const auto* const found = std::ranges::find_if(kTemplateMarks, [text](const TemplateMark& mark) {
    return text.find(mark.text) != std::string_view::npos;
  });
  if (found == kTemplateMarks.end())
    return assumed(PromptProfile::kPreview, fmt::format("{} has no text of efforts", source));
  std::string evidence = fmt::format("{}: \"{}\"", source, found->text);
  if (found->profile == PromptProfile::kPreview)
    evidence += fmt::format(", not \"{}\"", kTemplateMarks[1].text);
  return {{found->profile, std::move(evidence)}, false};
}

/// The text of a file of the folder; nothing where there is none. Throws `Error` where it cannot be read.
std::optional<std::string> text_of(const std::filesystem::path& folder, const std::filesystem::path& name) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(folder / name, ignored)) return std::nullopt;
  return read_text_file(folder / name, kMaxEncoderBytes);
}

FoundPromptProfile profile_of_v4_encoder(std::string_view text, std::string_view name) {
  constexpr std::string_view kPrompts = "REASONING_EFFORT_PROMPTS", kDefault = "DEFAULT_REASONING_EFFORT",
                             kMax = "REASONING_EFFORT_MAX";
  const auto prompts = assigned(text, kPrompts), standard = assigned(text, kDefault);
  if (prompts && standard && assigned_word(*standard) == "low" && has_keys(*prompts, {"low", "high", "max"}))
    return {{PromptProfile::kOfficial,
             fmt::format("{}: {} with low, high and max, {} low", name, kPrompts, kDefault)},
            false};
  if (assigned(text, kMax)) return {{PromptProfile::kPreview, fmt::format("{}: {}", name, kMax)}, false};
  return assumed(PromptProfile::kPreview,
                 fmt::format("{} has neither {} with a default of low nor {}", name, kPrompts, kMax));
}

constexpr std::string_view kMappings = "REASONING_EFFORT_MAPPINGS", kStandard = "DEFAULT_REASONING_EFFORT";

FoundPromptProfile profile_of_v41_encoder(std::string_view text, std::string_view name) {
  const auto mappings = assigned(text, kMappings), standard = assigned(text, kStandard);
  std::optional<EffortNumbers> numbers = mappings ? effort_table(*mappings) : std::nullopt;
  const auto* const word = std::ranges::find(kEffortWords, standard ? assigned_word(*standard) : "");
  const auto place = static_cast<std::size_t>(word - kEffortWords.begin());
  if (!numbers || word == kEffortWords.end() || numbers->numbers[place] == 0) {
    return assumed(
        PromptProfile::kV41,
        fmt::format("{} has no {} of low, high and max from {} to {}, or no {} that is one of "
                    "them; efforts are V4.1-Flash's: {}",
                    name, kMappings, kMinEffort, kMaxEffort, kStandard, numbers_text(PromptProfile::kV41)));
  }
  numbers->standard = place;
  const PromptProfile profile{PromptFormat::kV41, *numbers};
  return {{profile, fmt::format("{}: {} {}", name, kMappings, numbers_text(profile))}, false};
}

/// Whether the folder's config.json names V4.1.
bool is_named_v41(const std::filesystem::path& folder) {
  const std::optional<std::string> text = text_of(folder, "config.json");
  const auto config = parse_ordered_json(text.value_or(""));
  if (!config || !config.value().is_object()) return false;
  const auto type = config.value().find("model_type");
  return type != config.value().end() && type->is_string() &&
         type->get_ref<const std::string&>().starts_with("deepseek_v41");
}

FoundPromptProfile profile_of_folder(const std::filesystem::path& folder, bool is_v41) {
  constexpr const char* kTemplate = "chat_template.jinja";
  const std::filesystem::path &v4 = encoder_paths()[0], &v41 = encoder_paths()[1];
  const std::optional<std::string> v41_text = text_of(folder, v41);
  if (is_v41 && v41_text) return profile_of_v41_encoder(*v41_text, v41.string());
  if (is_v41) {
    return assumed(PromptProfile::kV41, fmt::format("there is no {}; efforts are V4.1-Flash's: {}",
                                                    v41.string(), numbers_text(PromptProfile::kV41)));
  }
  if (const auto text = text_of(folder, v4)) return profile_of_v4_encoder(*text, v4.string());
  if (v41_text && assigned(*v41_text, kMappings)) return profile_of_v41_encoder(*v41_text, v41.string());
  if (const auto text = text_of(folder, kTemplate)) return profile_of_template(*text, kTemplate);
  return assumed(PromptProfile::kPreview, fmt::format("there is no {}", v4.string()));
}

}  // namespace

std::span<const std::filesystem::path> encoder_paths() {
  static const std::array<std::filesystem::path, 2> paths = {
      std::filesystem::path("encoding") / "encoding_dsv4.py",
      std::filesystem::path("encoding") / "encoding.py"};
  return paths;
}

FoundPromptProfile find_prompt_profile(const std::filesystem::path& folder, bool is_v41) {
  if (const auto gguf = find_gguf(folder)) {
    const GgufModel model(*gguf);
    if (const auto text = model.keys().text(kGgufTemplateKey))
      return profile_of_template(*text, kGgufTemplateKey);
    return assumed(PromptProfile::kPreview, fmt::format("there is no {}", kGgufTemplateKey));
  }
  try {
    is_v41 |= is_named_v41(folder);
    return profile_of_folder(folder, is_v41);
  } catch (const Error& error) {
    return assumed(is_v41 ? PromptProfile::kV41 : PromptProfile::kPreview, error.what());
  }
}

FoundPromptProfile imposed_profile(const PromptProfile& chosen, const FoundPromptProfile& found) {
  if (chosen.format == found.profile.value.format)
    return {{found.profile.value, fmt::format("given by option; {}", found.profile.evidence)}, false};
  return {{chosen, "given by option"}, false};
}

}  // namespace baleen
