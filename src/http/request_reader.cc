#include "http/request_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <limits>
#include <optional>

#include "http/header_names.h"
#include "http/target.h"

namespace baleen {
namespace {

namespace beast = boost::beast;
using beast::http::error;
using beast::http::field;
using beast::http::verb;

constexpr std::size_t kMaxHeaders = 128;
/// Beast's parser never gives this code by itself.
constexpr error kNoBodyMemory = error::buffer_overflow;
constexpr std::size_t kMaxMethodLetters =
    16;  // the longest registered one that is letters only has 17 of no use here

/// Whether the line before a chunk is whole in what the parser left over, which then can only be an extension
/// whose quote stays open. Beast would wait for the quote, and charge the chunk to the limit of the body with
/// every byte.
bool is_stuck(std::string_view left_over) {
  if (left_over.starts_with("\r\n")) left_over.remove_prefix(2);  // the end of the chunk before
  const std::string_view size = left_over.substr(0, left_over.find_first_not_of("0123456789abcdefABCDEF"));
  const bool is_last_chunk = size.find_first_not_of('0') == std::string_view::npos;  // waits for the trailers
  return !is_last_chunk && left_over.find("\r\n") != std::string_view::npos;
}

}  // namespace

/// Beast's parser with the plainest message: a request whose trailers are dropped.
class RequestReader::Parser : public beast::http::basic_parser<true> {
 public:
  Parser(HttpRequest& request, const RequestLimits& limits, const std::shared_ptr<BodyBudget>& bodies)
      : request_(request), max_body_bytes_(limits.max_body_bytes) {
    if (!bodies) return;
    auto share = std::make_shared<BodyShare>(bodies);
    share_ = share.get();
    request.body_share = std::move(share);
  }

  [[nodiscard]] std::string_view target() const { return target_; }
  [[nodiscard]] int version() const { return version_; }

 private:
  using Text = beast::string_view;
  using Code = beast::error_code;

  void on_request_impl(verb, Text method, Text target, int version, Code&) override {
    request_.method.assign(method.data(), method.size());
    target_.assign(target.data(), target.size());
    version_ = version;
  }
  void on_field_impl(field, Text name, Text value, Code& code) override {
    if (is_header_done()) return;
    if (request_.headers.size() == kMaxHeaders) code = error::header_limit;
    request_.headers.emplace_back(std::string(name), std::string(value));
  }
  std::size_t on_body_impl(Text bytes, Code& code) override {
    std::string& body = request_.body;
    const std::size_t wanted = body.size() + bytes.size();
    if (wanted > body.capacity()) {
      // Doubled, so that growing stays cheap, but never beyond what the head announces.
      const std::size_t most = content_length() ? *content_length() : max_body_bytes_;
      const std::size_t capacity = std::max(wanted, std::min(2 * body.capacity(), most));
      if (share_ != nullptr && !share_->grow_to(capacity)) {
        code = kNoBodyMemory;
        return 0;
      }
      body.reserve(capacity);
    }
    body.append(bytes.data(), bytes.size());
    return bytes.size();
  }
  std::size_t on_chunk_body_impl(std::uint64_t, Text bytes, Code& code) override {
    return on_body_impl(bytes, code);
  }
  void on_response_impl(int, Text, int, Code&) override {}
  void on_header_impl(Code&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, Code&) override {}
  void on_chunk_header_impl(std::uint64_t, Text, Code&) override {}
  void on_finish_impl(Code&) override {}

  HttpRequest& request_;
  const std::size_t max_body_bytes_;
  BodyShare* share_ = nullptr;  // the request's
  std::string target_;
  int version_ = 11;
};

RequestReader::RequestReader(RequestLimits limits, std::shared_ptr<BodyBudget> bodies)
    : limits_(limits), bodies_(std::move(bodies)) {}
RequestReader::~RequestReader() = default;
RequestReader::RequestReader(RequestReader&&) noexcept = default;
RequestReader& RequestReader::operator=(RequestReader&&) noexcept = default;

std::size_t RequestReader::feed(std::string_view bytes) {
  std::size_t used = 0;
  if (!bytes.empty() && state_ == State::kEmpty) state_ = State::kHead;
  if (state_ == State::kHead) used = feed_head(bytes);
  if (state_ == State::kBody) feed_body(bytes, used);
  return state_ == State::kRefused ? bytes.size() : used;
}

std::size_t RequestReader::feed_head(std::string_view bytes) {
  std::size_t used = 0;
  const HeadScanner::Verdict verdict = scanner_.feed(bytes, used);
  if (unparsed_.size() + used > limits_.max_header_bytes) {
    refuse(431, "header_too_large",
           fmt::format("The request's head is longer than {} bytes.", limits_.max_header_bytes));
  } else if (verdict == HeadScanner::Verdict::kBad) {
    refuse(400, "bad_request",
           "The request's head holds a control character, a bare line ending or a folded line.");
  } else {
    unparsed_.append(bytes, 0, used);
    if (verdict == HeadScanner::Verdict::kEnd) parse_head();
  }
  return used;
}

void RequestReader::parse_head() {
  const std::string head = std::move(unparsed_);
  unparsed_ = {};
  parser_ = std::make_unique<Parser>(request_, limits_, bodies_);
  parser_->header_limit(std::numeric_limits<std::uint32_t>::max());  // already kept
  parser_->body_limit(limits_.max_body_bytes);
  const bool blank_first = head.starts_with("\r\n");
  const std::size_t used = put(std::string_view(head).substr(blank_first ? 2 : 0));
  if (state_ == State::kRefused) return;
  if (!parser_->is_header_done() || used + (blank_first ? 2 : 0) != head.size()) {
    return refuse(400, "bad_request", "The request's head is malformed.");
  }
  http11_ = parser_->version() == 11;
  keep_alive_ = parser_->keep_alive();
  check_head();
  if (state_ == State::kRefused) return;
  state_ = State::kBody;
  parser_->eager(true);
  finish_if_done();
}

void RequestReader::check_head() {
  const auto bad = [&](const char* message) { refuse(400, "bad_request", message); };
  const auto is_capital = [](char c) { return c >= 'A' && c <= 'Z'; };
  const std::string& method = request_.method;
  if (method.size() > kMaxMethodLetters || !std::all_of(method.begin(), method.end(), is_capital) ||
      method == "CONNECT" || method == "TRACE") {
    return bad("The request's method is none that this server knows.");
  }
  std::optional<Target> target = parse_target(parser_->target());
  if (!target || (target->path == "*" && method != "OPTIONS")) {
    return bad("The request's target is not a plain path that begins with '/', nor http://HOST before one.");
  }
  request_.path = std::move(target->path);
  request_.query = std::move(target->query);
  const std::string& authority = target->authority;

  int hosts = 0, lengths = 0, encodings = 0;
  for (const auto& [name, value] : request_.headers) {
    if (same_header(name, "Host")) {
      ++hosts;
      // A reader that goes by the other one of the two would see another site.
      if (!authority.empty() && !same_header(value, authority))
        return bad("The target and the Host header differ.");
      if (value.find_first_of(" \t,/@\\?#") != std::string::npos) return bad("The Host header is malformed.");
    } else if (same_header(name, "Content-Length")) {
      ++lengths;
      const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
      if (!std::all_of(value.begin(), value.end(), is_digit)) return bad("Content-Length is not a number.");
    } else if (same_header(name, "Transfer-Encoding")) {
      ++encodings;
      if (!same_header(value, "chunked")) return bad("The only transfer encoding taken is chunked.");
    } else if (same_header(name, "Expect")) {
      if (!same_header(value, "100-continue")) {
        return refuse(417, "expectation_failed", "The only expectation met is 100-continue.");
      }
      expects_continue_ = http11_;
    }
  }
  if (hosts > 1 || (http11_ && hosts == 0)) return bad("A request has exactly one Host header.");
  if (lengths + encodings > 1)
    return bad("A body has one Content-Length or is chunked, not both or several.");
  if (encodings > 0 && !http11_) return bad("Chunked bodies need HTTP/1.1.");
}

void RequestReader::feed_body(std::string_view bytes, std::size_t& used) {
  if (unparsed_.empty()) {
    used += put(bytes.substr(used));
    if (state_ == State::kBody && used < bytes.size()) {
      unparsed_.assign(bytes.substr(used));
      used = bytes.size();
    }
  } else {
    // What is left over is less than a line, so the parser's place in `unparsed_` is before `bytes`, and all
    // that a finished request leaves lies in `bytes`.
    unparsed_.append(bytes.substr(used));
    const std::size_t taken = put(unparsed_);
    const std::size_t left = unparsed_.size() - taken;
    unparsed_.erase(0, taken);
    used = bytes.size();
    if (state_ == State::kComplete) {
      used -= left;
      unparsed_ = {};
    }
  }
  if (state_ != State::kBody || unparsed_.empty()) return;
  if (is_stuck(unparsed_)) {
    refuse(400, "bad_request", "A chunk extension is malformed.");
  } else if (unparsed_.size() > limits_.max_header_bytes) {
    refuse(431, "header_too_large",
           fmt::format("A line between chunks or the trailers are longer than {} bytes.",
                       limits_.max_header_bytes));
  }
}

std::size_t RequestReader::put(std::string_view bytes) {
  if (bytes.empty()) return 0;
  beast::error_code code;
  const std::size_t used = parser_->put(boost::asio::const_buffer(bytes.data(), bytes.size()), code);
  if (code == error::body_limit) {
    refuse(413, "body_too_large",
           fmt::format("The request's body is larger than {} bytes.", limits_.max_body_bytes));
  } else if (code == kNoBodyMemory) {
    refuse(503, "bodies_too_large",
           "The requests in progress hold all the memory that their bodies may have; try again in a moment.");
  } else if (code == error::header_limit) {
    refuse(431, "header_too_large", fmt::format("The request has more than {} headers.", kMaxHeaders));
  } else if (code && code != error::need_more) {
    refuse(400, "bad_request", fmt::format("The request is malformed: {}.", code.message()));
  } else if (state_ == State::kBody) {
    finish_if_done();
  }
  return used;
}

void RequestReader::finish_if_done() {
  if (!parser_->is_done()) return;
  parser_.reset();
  state_ = State::kComplete;
}

void RequestReader::refuse(int status, std::string code, std::string message) {
  error_ = {status, std::move(code), std::move(message), request_.path};
  if (parser_ && error_.path.empty()) {  // refused by the parser, before `check_head` saw the target
    if (std::optional<Target> target = parse_target(parser_->target())) error_.path = std::move(target->path);
  }
  parser_.reset();
  unparsed_ = {};
  request_ = {};
  keep_alive_ = false;
  state_ = State::kRefused;
}

}  // namespace baleen
