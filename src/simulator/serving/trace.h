/// Recorded requests, from a file of JSON lines or of CSV.
///
///     {"arrival": 0.25, "prompt_tokens": 812, "output_tokens": 64, "session": "a", "family": "tools", "family_tokens": 512}
///
///     arrival,prompt_tokens,output_tokens,session,family,family_tokens
///     0.25,812,64,a,tools,512
///
/// `arrival`: seconds, not falling from line to line. The last three are optional. Requests of one session
/// are turns of one conversation: each prompt begins with the earlier ones and their replies, as far as it
/// reaches. Sessions of one family share their first `family_tokens` tokens; a branch of a session names that
/// session as its family.
#pragma once

#include <filesystem>
#include <istream>
#include <memory>
#include <string>
#include <vector>

#include "simulator/serving/request_source.h"

namespace baleen {

/// JSON lines where the first line begins with a brace, else CSV. Throws `Error` with the number of the line,
/// what was expected and what was found.
[[nodiscard]] std::vector<ServingRequest> parse_trace(std::istream& lines, const std::string& name);
[[nodiscard]] std::vector<ServingRequest> load_trace(const std::filesystem::path& file);

/// Requests as recorded, `speed` times as fast.
[[nodiscard]] std::unique_ptr<RequestSource> make_trace_requests(std::vector<ServingRequest> requests,
                                                                 double speed);

}  // namespace baleen
