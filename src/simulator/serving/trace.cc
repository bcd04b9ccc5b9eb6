#include "simulator/serving/trace.h"

#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/number.h"
#include "base/quoted_text.h"

namespace baleen {
namespace {

/// More than any context: a slip of the hand.
constexpr double kMaxTokens = 1e9;
constexpr std::array<std::string_view, 6> kColumns = {"arrival", "prompt_tokens", "output_tokens",
                                                      "session", "family",        "family_tokens"};
constexpr std::size_t kNumRequired = 3;

/// A line's fields as text, in the order of kColumns; empty where missing.
using Fields = std::array<std::string, kColumns.size()>;

struct Line {
  const std::string& file;
  std::int64_t number = 0;

  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    baleen::fail("{}:{}: {}", file, number, fmt::format(format, std::forward<Args>(args)...));
  }
};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r";
  const auto first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::vector<std::string_view> split_at_commas(std::string_view text) {
  std::vector<std::string_view> fields;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    fields.push_back(trimmed(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return fields;
}

/// Which column of kColumns stands where.
std::vector<std::size_t> parse_header(std::string_view text, const Line& line) {
  std::vector<std::size_t> columns;
  std::array<bool, kColumns.size()> named{};
  for (const std::string_view name : split_at_commas(text)) {
    const auto found = std::ranges::find(kColumns, name);
    if (found == kColumns.end()) {
      line.fail("expected a header of the columns {}; found {}", fmt::join(kColumns, ","), quoted_text(name));
    }
    const auto column = static_cast<std::size_t>(found - kColumns.begin());
    if (std::exchange(named[column], true)) line.fail("the header names {} twice", name);
    columns.push_back(column);
  }
  for (std::size_t column = 0; column < kNumRequired; ++column) {
    if (!named[column]) line.fail("the header lacks the column {}", kColumns[column]);
  }
  return columns;
}

Fields parse_csv(std::string_view text, const std::vector<std::size_t>& columns, const Line& line) {
  const auto values = split_at_commas(text);
  if (values.size() != columns.size()) {
    line.fail("expected {} values as in the header; found {}", columns.size(), values.size());
  }
  Fields fields;
  for (std::size_t i = 0; i < values.size(); ++i) fields[columns[i]] = std::string(values[i]);
  return fields;
}

Fields parse_object(const std::string& text, const Line& line) {
  const Result<nlohmann::json> parsed = parse_json(text);
  if (!parsed) line.fail("expected a JSON object: {}", parsed.error());
  const nlohmann::json& json = parsed.value();
  if (!json.is_object()) line.fail("expected a JSON object; found {}", quoted_text(text));
  Fields fields;
  for (const auto& [key, value] : json.items()) {
    const auto found = std::ranges::find(kColumns, std::string_view(key));
    if (found == kColumns.end()) continue;  // recorders note more than we need
    if (!value.is_string() && !value.is_number()) {
      line.fail("{}: expected a number or a string; found {}", key, value.type_name());
    }
    fields[static_cast<std::size_t>(found - kColumns.begin())] =
        value.is_string() ? value.get<std::string>() : value.dump();
  }
  return fields;
}

double number_in(const Fields& fields, std::size_t column, double least, double most, const Line& line) {
  const std::string& text = fields[column];
  const Result<double> value = read_real(text, {.min = least, .max = most});
  const bool whole = column == 0 || (value && value.value() == std::floor(value.value()));
  if (!value || !whole) {
    line.fail("{}: expected a {} from {:g} to {:g}; found {}", kColumns[column],
              column == 0 ? "number of seconds" : "whole number", least, most,
              text.empty() ? "nothing" : quoted_text(text));
  }
  return value.value();
}

/// Streams by the names of sessions and families. Requests without a session have one of their own.
class StreamNames {
 public:
  std::uint64_t of(const std::string& name) {
    const auto [entry, is_new] = numbers_.try_emplace(name, next_);
    if (is_new) ++next_;
    return entry->second;
  }
  std::uint64_t unnamed() { return next_++; }

 private:
  std::map<std::string, std::uint64_t> numbers_;
  std::uint64_t next_ = 0;
};

ServingRequest request_of(const Fields& fields, const Line& line, StreamNames& names) {
  constexpr double kMaxSeconds = 1e10;  // seconds since 1970, too
  ServingRequest request;
  request.arrival = number_in(fields, 0, 0, kMaxSeconds, line);
  request.prompt_tokens = static_cast<std::int64_t>(number_in(fields, 1, 1, kMaxTokens, line));
  request.output_tokens = static_cast<std::int64_t>(number_in(fields, 2, 1, kMaxTokens, line));
  const std::string &session = fields[3], &family = fields[4];
  request.stream.own = session.empty() ? names.unnamed() : names.of(session);
  if (!family.empty()) {
    request.stream.family = names.of(family);
    request.stream.family_tokens = static_cast<std::int64_t>(number_in(fields, 5, 0, kMaxTokens, line));
  } else if (!fields[5].empty()) {
    line.fail("family_tokens without a family");
  }
  return request;
}

class TraceRequests final : public RequestSource {
 public:
  explicit TraceRequests(std::vector<ServingRequest> requests) : requests_(std::move(requests)) {}

  std::optional<ServingRequest> next() override {
    if (at_ == requests_.size()) return std::nullopt;
    return requests_[at_++];
  }
  std::optional<ServingRequest> after(const ServingRequest&, double) override { return std::nullopt; }

 private:
  std::vector<ServingRequest> requests_;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<ServingRequest> parse_trace(std::istream& lines, const std::string& name) {
  std::vector<ServingRequest> requests;
  std::vector<std::size_t> columns;
  StreamNames names;
  Line line{.file = name};
  bool is_json = false, seen_first = false;
  for (std::string text; std::getline(lines, text);) {
    ++line.number;
    if (trimmed(text).empty()) continue;
    if (!std::exchange(seen_first, true)) {
      is_json = trimmed(text).front() == '{';
      if (!is_json) {
        columns = parse_header(text, line);
        continue;
      }
    }
    const Fields fields = is_json ? parse_object(text, line) : parse_csv(text, columns, line);
    ServingRequest request = request_of(fields, line, names);
    if (!requests.empty() && request.arrival < requests.back().arrival) {
      line.fail("arrival: expected {:g} or later, as the line before; found {:g}; sort the trace by arrival",
                requests.back().arrival, request.arrival);
    }
    request.number = std::ssize(requests);
    requests.push_back(request);
  }
  if (requests.empty()) fail("{}: the trace has no requests", name);
  return requests;
}

std::vector<ServingRequest> load_trace(const std::filesystem::path& file) {
  std::istringstream lines(read_text_file(file));
  return parse_trace(lines, file.string());
}

std::unique_ptr<RequestSource> make_trace_requests(std::vector<ServingRequest> requests, double speed) {
  if (!(speed > 0 && std::isfinite(speed))) {
    fail("speed: {}; give a positive number, 1 for as recorded", speed);
  }
  for (ServingRequest& request : requests) request.arrival /= speed;
  return std::make_unique<TraceRequests>(std::move(requests));
}

}  // namespace baleen
