#include "protocols/requested_sampling.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace baleen {
namespace {

constexpr double kMaxTemperature = 2, kMaxPenalty = 2, kMaxBias = 100, kMaxRepetitionPenalty = 100;
constexpr std::size_t kMaxBiases = 1024;
/// Text that may begin a stop string is held back, so a stop string costs its length for every open reply.
constexpr std::size_t kMaxStopBytes = 4096;
constexpr std::size_t kMaxMetadata = 16, kMaxMetadataKeyBytes = 64, kMaxMetadataValueBytes = 512;

void read_positive(const RequestFields& fields, std::string_view name, double max,
                   std::optional<double>& out) {
  const std::optional<double> value = fields.number(name, 0, max);
  if (value && *value == 0)
    return fields.refuse(name, fmt::format("expected a number above 0, at most {}, found 0", max));
  if (value) out = value;
}

/// Names and defaults of llama.cpp.
void read_dry(const RequestFields& fields, ApiRequest& request) {
  constexpr double kMaxMultiplier = 100, kMaxBase = 100;
  DryParams& dry = request.sampling.dry;
  dry.multiplier = fields.number("dry_multiplier", 0, kMaxMultiplier).value_or(dry.multiplier);
  dry.base = fields.number("dry_base", 1, kMaxBase).value_or(dry.base);
  dry.allowed_length = fields.integer("dry_allowed_length", 0, kMaxTokensLimit).value_or(dry.allowed_length);
  dry.penalty_last_n = fields.integer("dry_penalty_last_n", -1, kMaxTokensLimit).value_or(dry.penalty_last_n);
  const PythonJson::Array* list = fields.list("dry_sequence_breakers", DryParams::kMaxBreakers);
  if (list == nullptr) return;
  request.dry_sequence_breakers.emplace();
  for (std::size_t i = 0; i < list->size(); ++i) {
    const std::string* text = (*list)[i].as_string();
    if (text == nullptr || text->empty() || text->size() > DryParams::kMaxBreakerBytes) {
      return fields.refuse_at(fields.path("dry_sequence_breakers", i),
                              fmt::format("expected a string of 1 to {} bytes, found {}",
                                          DryParams::kMaxBreakerBytes, describe(&(*list)[i])));
    }
    request.dry_sequence_breakers->push_back(*text);
  }
}

void read_logit_bias(const RequestFields& fields, const ApiContext& context, SamplingParams& sampling) {
  const PythonJson::Object* biases = fields.object("logit_bias");
  if (biases == nullptr) return;
  if (biases->size() > kMaxBiases) {
    return fields.refuse("logit_bias",
                         fmt::format("{} tokens, where at most {} are taken", biases->size(), kMaxBiases));
  }
  const RequestFields values(*fields.find("logit_bias"), fields.path("logit_bias"), fields.error());
  for (const PythonJson::Member& member : *biases) {
    std::int32_t token = -1;
    const char* const end = member.name.data() + member.name.size();
    const auto read = std::from_chars(member.name.data(), end, token);
    if (read.ec != std::errc() || read.ptr != end || token < 0 || token >= context.vocab_size) {
      return fields.refuse("logit_bias", fmt::format("{} is no token id; ids run from 0 to {}",
                                                     describe(member.name), context.vocab_size - 1));
    }
    if (const auto bias = values.number(member.name, -kMaxBias, kMaxBias)) sampling.logit_bias[token] = *bias;
  }
}

}  // namespace

void read_common_sampling(const RequestFields& fields, ApiRequest& request) {
  SamplingParams& sampling = request.sampling;
  request.temperature = fields.number("temperature", 0, kMaxTemperature);
  read_positive(fields, "top_p", 1, request.top_p);
  // -1 is how some clients write "no limit".
  const std::int64_t top_k = fields.integer("top_k", -1, std::numeric_limits<int>::max()).value_or(0);
  sampling.top_k = static_cast<int>(std::max<std::int64_t>(top_k, 0));
  sampling.min_p = fields.number("min_p", 0, 1).value_or(sampling.min_p);
  std::optional<double> repetition_penalty;
  read_positive(fields, "repetition_penalty", kMaxRepetitionPenalty, repetition_penalty);
  sampling.repetition_penalty = repetition_penalty.value_or(sampling.repetition_penalty);
  read_dry(fields, request);
  constexpr std::int64_t kMaxPriority = 1'000'000;
  request.priority = static_cast<int>(fields.integer("priority", -kMaxPriority, kMaxPriority).value_or(0));
}

void read_completion_sampling(const RequestFields& fields, const ApiContext& context, ApiRequest& request) {
  SamplingParams& sampling = request.sampling;
  sampling.frequency_penalty = fields.number("frequency_penalty", -kMaxPenalty, kMaxPenalty).value_or(0);
  sampling.presence_penalty = fields.number("presence_penalty", -kMaxPenalty, kMaxPenalty).value_or(0);
  using Seed = std::numeric_limits<std::int64_t>;
  if (const auto seed = fields.integer("seed", Seed::min(), Seed::max())) {
    sampling.seed = static_cast<std::uint64_t>(*seed);
  }
  const std::int64_t most = std::min<std::int64_t>(context.max_choices, context.max_replies);
  request.num_choices = static_cast<int>(fields.integer("n", 1, most).value_or(1));
  read_logit_bias(fields, context, sampling);
  read_stops(fields, "stop", request);
}

void read_stops(const RequestFields& fields, std::string_view name, ApiRequest& request) {
  const PythonJson* value = fields.find(name);
  if (value == nullptr) return;
  const auto add = [&](const PythonJson& stop, std::string path) {
    const std::string* text = stop.as_string();
    if (text == nullptr || text->empty() || text->size() > kMaxStopBytes) {
      return fields.refuse_at(std::move(path), fmt::format("expected a string of 1 to {} bytes, found {}",
                                                           kMaxStopBytes, describe(&stop)));
    }
    request.stops.push_back(*text);
  };
  if (value->as_string() != nullptr) return add(*value, fields.path(name));
  if (value->as_array() == nullptr) return fields.expected(name, "a string or an array of strings");
  const PythonJson::Array* list = fields.list(name, kMaxStops);
  for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) add((*list)[i], fields.path(name, i));
}

void read_stream_options(const RequestFields& fields, ApiRequest& request) {
  request.stream = fields.flag("stream").value_or(false);
  const auto options = fields.fields("stream_options");
  if (!options) return;
  if (!request.stream) return fields.refuse("stream_options", "only with \"stream\": true");
  request.include_usage = options->flag("include_usage").value_or(false);
  request.include_progress = options->flag("include_progress").value_or(false);
}

void check_metadata(const RequestFields& fields) {
  const PythonJson::Object* pairs = fields.object("metadata");
  if (pairs == nullptr) return;
  if (pairs->size() > kMaxMetadata) {
    return fields.refuse("metadata",
                         fmt::format("{} pairs, where at most {} are taken", pairs->size(), kMaxMetadata));
  }
  for (const auto& [name, value] : *pairs) {
    const std::string* text = value.as_string();
    if (text == nullptr || name.size() > kMaxMetadataKeyBytes || text->size() > kMaxMetadataValueBytes) {
      return fields.refuse("metadata",
                           fmt::format("expected strings, keys of at most {} and values of at most {} bytes",
                                       kMaxMetadataKeyBytes, kMaxMetadataValueBytes));
    }
  }
}

}  // namespace baleen
