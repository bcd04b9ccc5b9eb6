// How the tests of all request parsers write their cases.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "protocols/protocol.h"

namespace baleen {

using RequestParser = ApiResult<ApiRequest> (*)(std::string_view, const ApiContext&);

inline ApiContext test_context() { return {.model = "m", .vocab_size = 100, .max_choices = 4}; }

/// The request, or a test failure and an empty one.
inline ApiRequest accepted(RequestParser parse, std::string_view body,
                           const ApiContext& context = test_context()) {
  ApiResult<ApiRequest> result = parse(body, context);
  if (const ApiError* error = std::get_if<ApiError>(&result)) {
    ADD_FAILURE() << body << "\nwas refused: " << error->message;
    return {};
  }
  return std::get<ApiRequest>(std::move(result));
}

/// `fields` are put into a body that is otherwise good; `sentence` is a part of what the client must read.
struct Refusal {
  std::string fields;
  std::string param;
  std::string sentence;
};

inline ApiError refused(RequestParser parse, std::string_view body) {
  ApiResult<ApiRequest> result = parse(body, test_context());
  if (ApiError* error = std::get_if<ApiError>(&result)) return *error;
  ADD_FAILURE() << body << "\nwas accepted";
  return {};
}

/// `base`: fields with which an empty list of further fields would be accepted; those of a case win.
inline void expect_refusals(RequestParser parse, const std::string& base, const std::vector<Refusal>& cases) {
  (void)accepted(parse, "{" + base + "}");
  for (const Refusal& refusal : cases) {
    const std::string body = "{" + base + ", " + refusal.fields + "}";
    const ApiError error = refused(parse, body);
    EXPECT_EQ(error.status, 400) << body;
    EXPECT_EQ(error.type, "invalid_request_error") << body;
    EXPECT_EQ(error.param, refusal.param) << body << "\n" << error.message;
    EXPECT_NE(error.message.find(refusal.sentence), std::string::npos) << body << "\n" << error.message;
    EXPECT_TRUE(error.message.starts_with(refusal.param + ": ")) << error.message;
  }
}

}  // namespace baleen
