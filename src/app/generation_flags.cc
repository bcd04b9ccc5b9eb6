#include "app/generation_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <system_error>

#include "app/option_ranges.h"
#include "app/options.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/quoted_text.h"
#include "generation/sequence_breakers.h"

namespace baleen {
namespace {

double rate(std::int64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0.0;
}

/// A number of generation_config.json, if the file and the number are there.
std::optional<double> recommended(const std::filesystem::path& folder, const char* name) {
  const std::filesystem::path path = folder / "generation_config.json";
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::nullopt;
  const Result<nlohmann::json> parsed = parse_json(read_text_file(path, 1 << 20));
  if (!parsed) fail("{}: not JSON: {}", path.string(), parsed.error());
  const nlohmann::json& json = parsed.value();
  if (!json.is_object()) fail("{}: not a JSON object", path.string());
  if (!json.contains(name)) return std::nullopt;
  if (!json[name].is_number())
    fail("{}: \"{}\": expected a number, found {}", path.string(), name,
         json[name].is_string() ? quoted_text(json[name].get<std::string>())
                                : shortened_text(json[name].dump(), 60));
  return json[name].get<double>();
}

}  // namespace

void GenerationFlags::add_to(Options& command) {
  constexpr RealRange kPenalty{.min = -2, .max = 2};
  constexpr RealRange kAnyTemperature{.min = 0, .max = 1e6};
  command.real("--temperature", temperature, kAnyTemperature,
               "0 takes the likeliest token; unset: as the model's folder recommends");
  command.integer("--top-k", sampling.top_k, {0, std::numeric_limits<int>::max()},
                  "Keep the k likeliest tokens; 0 keeps all");
  command.real("--top-p", top_p, {.min = 0, .max = 1, .above_min = true},
               "Keep the likeliest tokens that hold this share of the probability");
  command.real("--min-p", sampling.min_p, kShareRange,
               "Keep tokens at least this fraction as likely as the likeliest");
  command.real("--repetition-penalty", sampling.repetition_penalty, {.min = 0, .max = 1e6, .above_min = true},
               "Above 1: tokens seen before become less likely");
  command.real("--frequency-penalty", sampling.frequency_penalty, kPenalty,
               "Subtracted per earlier appearance in the reply");
  command.real("--presence-penalty", sampling.presence_penalty, kPenalty,
               "Subtracted once from tokens of the reply");
  constexpr RealRange kMultiplier{.min = 0, .max = 1e6}, kBase{.min = 1, .max = 1e6};
  command.real("--dry-multiplier", sampling.dry.multiplier, kMultiplier,
               "Penalty for what would prolong a repetition: this times the base to the power of the "
               "repeated tokens beyond the allowed ones (DRY); 0: none");
  command.real("--dry-base", sampling.dry.base, kBase, "Base of that power");
  command.integer("--dry-allowed-length", sampling.dry.allowed_length, kTokensRange,
                  "Tokens that may repeat at the multiplier's cost");
  command.integer("--dry-penalty-last-n", sampling.dry.penalty_last_n, {-1, kTokensRange.max},
                  "Latest tokens to look for repetitions in; -1: all; 0: no penalty");
  command.texts("--dry-sequence-breaker", dry_breakers,
                "Text that repetitions do not reach across; may be given several times, in the place of line "
                "break, :, \" and *; none: no text does");
  command.seed("--seed", sampling.seed, "Same seed, same text");
  command.texts(
      "--stop", stops,
      "End before this text of the reply, its reasoning and calls apart; may be given several times");
  command.integer("--max-tokens,-n", max_tokens, kTokensRange,
                  "Tokens to generate at most; 0: as many as the context holds");
  ending.add_to(command);
}

Option GenerationFlags::add_controls_in_content_to(Options& command) {
  return command.flag(
      "--control-tokens-in-content", controls_in_content,
      "Special strings in messages become control tokens, as in the official encoder; whoever "
      "writes a message can then forge turns");
}

SamplingParams GenerationFlags::params(const std::filesystem::path& folder, std::int64_t vocab_size,
                                       const Tokenizer& tokenizer) const {
  SamplingParams result = sampling;
  result.temperature = temperature ? *temperature : recommended(folder, "temperature").value_or(1.0);
  result.top_p = top_p ? *top_p : recommended(folder, "top_p").value_or(1.0);
  const std::vector<std::string> wrong = result.validate(static_cast<std::int32_t>(vocab_size));
  if (!wrong.empty()) fail("{}", fmt::join(wrong, "; "));
  if (result.dry.penalises()) {
    std::vector<std::string> texts = dry_breakers.empty() ? default_sequence_breakers() : dry_breakers;
    std::erase(texts, "none");
    result.dry.breakers = sequence_breakers(tokenizer, texts);
  }
  return result;
}

std::string speed_text(const Generated& generated) {
  // The first token comes out of the prompt; decoding made the others.
  const auto num_tokens = static_cast<std::int64_t>(generated.tokens.size());
  return fmt::format("{} prompt tokens in {:.2f} s ({:.0f}/s), {} tokens in {:.2f} s ({:.1f}/s)",
                     generated.prompt_tokens, generated.prompt_seconds,
                     rate(generated.prompt_tokens, generated.prompt_seconds), num_tokens,
                     generated.decode_seconds, rate(num_tokens - 1, generated.decode_seconds));
}

std::string_view end_text(ReplyEnd end) {
  switch (end) {
    case ReplyEnd::kStopToken:
    case ReplyEnd::kToolCalls:
      return "stopped";
    case ReplyEnd::kStopString:
      return "stop string";
    case ReplyEnd::kLength:
      return "token limit";
    case ReplyEnd::kRepetition:
      return "looped";
    case ReplyEnd::kCancelled:
      return "interrupted";
    case ReplyEnd::kFailed:
      return "failed";
  }
  return "?";
}

}  // namespace baleen
