// Requests as the server reads them. The first byte says into how many pieces the rest is cut; the outcome
// must not depend on it, and no accepted request may break what handlers rely on.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "http/request_reader.h"

namespace baleen {
namespace {

using State = RequestReader::State;
constexpr RequestLimits kLimits{.max_header_bytes = 4096, .max_body_bytes = 4096};

void check_request(const HttpRequest& request) {
  BALEEN_CHECK(request.path == "*" || request.path.starts_with('/'));
  BALEEN_CHECK((request.path + "/").find("/../") == std::string::npos);
  BALEEN_CHECK((request.path + request.query).find('\0') == std::string::npos);
  BALEEN_CHECK(request.body.size() <= kLimits.max_body_bytes);
  for (const auto& [name, value] : request.headers) {
    BALEEN_CHECK(!name.empty());
    BALEEN_CHECK((name + value).find_first_of(std::string_view("\0\r\n", 3)) == std::string::npos);
  }
}

/// Reads one request, at most `piece` bytes at a time; `used` is where it ended.
RequestReader read(std::string_view bytes, std::size_t piece, std::size_t& used) {
  RequestReader reader(kLimits);
  used = 0;
  while (used < bytes.size() && reader.state() != State::kComplete && reader.state() != State::kRefused) {
    const std::string_view next = bytes.substr(used, piece);
    const std::size_t taken = reader.feed(next);
    BALEEN_CHECK(taken == next.size() || reader.state() == State::kComplete);
    used += taken;
  }
  return reader;
}

}  // namespace
}  // namespace baleen

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  const std::size_t piece = std::size_t{1} + data[0] % 32;
  while (!bytes.empty()) {  // each turn takes a whole request
    std::size_t used = 0, used_by_pieces = 0;
    baleen::RequestReader whole = baleen::read(bytes, bytes.size(), used);
    baleen::RequestReader pieces = baleen::read(bytes, piece, used_by_pieces);
    BALEEN_CHECK(whole.state() == pieces.state());
    if (whole.state() != baleen::RequestReader::State::kComplete) break;
    BALEEN_CHECK_EQ(used, used_by_pieces);
    BALEEN_CHECK(whole.request().body == pieces.request().body);
    BALEEN_CHECK(whole.request().headers == pieces.request().headers);
    baleen::check_request(whole.request());
    bytes.remove_prefix(used);
  }
  return 0;
}
