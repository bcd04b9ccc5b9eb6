/// Sampling fields, which the protocols share as far as each has them.
#pragma once

#include "protocols/protocol.h"
#include "protocols/request_fields.h"

namespace baleen {

/// A whole number no larger than this is a plausible limit of tokens.
inline constexpr std::int64_t kMaxTokensLimit = 1'000'000'000;
inline constexpr std::size_t kMaxStops = 16;

/// temperature, top_p, and the extensions top_k, min_p, repetition_penalty, dry_multiplier, dry_base,
/// dry_allowed_length, dry_penalty_last_n, dry_sequence_breakers, priority: in every protocol.
void read_common_sampling(const RequestFields& fields, ApiRequest& request);

/// frequency_penalty, presence_penalty, logit_bias, seed, n, stop: of OpenAI's two completions.
void read_completion_sampling(const RequestFields& fields, const ApiContext& context, ApiRequest& request);

/// `name`: a string or a list of strings, none empty.
void read_stops(const RequestFields& fields, std::string_view name, ApiRequest& request);

/// stream, stream_options.include_usage and .include_progress: of OpenAI's two completions.
void read_stream_options(const RequestFields& fields, ApiRequest& request);

/// `metadata`: at most 16 pairs of strings, which this server has no use for.
void check_metadata(const RequestFields& fields);

}  // namespace baleen
