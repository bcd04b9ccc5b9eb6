/// The path of a request as the routes name it, however the client's address of the server was written.
#pragma once

#include <string>
#include <string_view>

namespace baleen {

/// Empty segments mean nothing ("//v1/models", "/v1/models/": an address with a slash at its end, and a path
/// with one at its start). A version that client and address both wrote counts once ("/v1/v1/messages"), and
/// one that neither wrote is supplied ("/messages"), for the APIs that have one.
[[nodiscard]] std::string route_path(std::string_view path);

}  // namespace baleen
