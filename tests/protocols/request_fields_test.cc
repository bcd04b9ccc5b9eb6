// What is common to all request parsers: the body itself, the model, and numbers at their edges.
#include "protocols/request_fields.h"

#include "request_cases.h"

namespace baleen {
namespace {

constexpr RequestParser kParsers[] = {parse_chat_completions, parse_completions, parse_responses,
                                      parse_messages, parse_count_tokens};

TEST(RequestBody, IsJsonOfAnObject) {
  for (const RequestParser parse : kParsers) {
    EXPECT_NE(refused(parse, "").message.find("not JSON: byte 0"), std::string::npos);
    EXPECT_NE(refused(parse, R"({"model": "m",, )").message.find("byte 14"), std::string::npos);
    EXPECT_NE(refused(parse, "{\"model\": \"\xff\"}").message.find("byte 11: not valid UTF-8"),
              std::string::npos);
    EXPECT_NE(refused(parse, "[]").message.find("a JSON object, not an array"), std::string::npos);
    EXPECT_NE(refused(parse, std::string(100000, '[')).message.find("nested deeper"), std::string::npos);
    EXPECT_EQ(refused(parse, R"({"model": 7})").message, "model: expected a string, found 7");
  }
}

TEST(RequestBody, NamesTheModelServedOrNone) {
  EXPECT_EQ(accepted(parse_completions, R"({"prompt": "p"})").model, "m");
  EXPECT_EQ(accepted(parse_completions, R"({"prompt": "p", "model": null})").model, "m");
  for (const RequestParser parse : kParsers) {
    const ApiError error = refused(parse, R"({"model": "gpt"})");
    EXPECT_EQ(error.status, 404);
    EXPECT_EQ(error.code, "model_not_found");
    EXPECT_EQ(error.message, "model: \"gpt\" is not served here; this server has \"m\"");
  }
}

TEST(RequestBody, MayNameAnyModelWhereTheServerSaysSo) {
  const ApiContext context{.model = "m", .any_model = true, .vocab_size = 100};
  const auto request = parse_completions(R"({"prompt": "p", "model": "gpt"})", context);
  ASSERT_TRUE(std::holds_alternative<ApiRequest>(request));
  EXPECT_EQ(std::get<ApiRequest>(request).model, "m");
}

TEST(RequestFields, WholeNumbers) {
  const auto read = [](const char* text) { return RequestNotation::whole(parse_python_json(text).value()); };
  EXPECT_EQ(read("7"), 7);
  EXPECT_EQ(read("-7.0"), -7);
  EXPECT_EQ(read("1e3"), 1000);
  EXPECT_EQ(read("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
  for (const char* text :
       {"7.5", "9223372036854775808", "1e300", "NaN", "Infinity", "\"7\"", "null", "true"}) {
    EXPECT_EQ(read(text), std::nullopt) << text;
  }
  EXPECT_EQ(read(("1" + std::string(500, '0')).c_str()), std::nullopt);
}

TEST(RequestFields, SentencesStayShort) {
  const std::string long_text(1000, 'x');
  EXPECT_EQ(describe(long_text), "a string of 1000 bytes");
  const PythonJson number = parse_python_json(std::string(1000, '1')).value();
  EXPECT_EQ(describe(&number), "a number of 1000 digits");
}

TEST(ErrorBody, HasEachProtocolsShape) {
  const ApiError error{.status = 404, .code = "model_not_found", .param = "model", .message = "model: \xff"};
  EXPECT_EQ(error_body(kChatCompletionsApi, error),
            "{\"error\":{\"message\":\"model: "
            "\xEF\xBF\xBD\",\"type\":\"invalid_request_error\",\"param\":\"model\","
            "\"code\":\"model_not_found\"}}");
  EXPECT_EQ(
      error_body(kMessagesApi, error),
      "{\"type\":\"error\",\"error\":{\"type\":\"not_found_error\",\"message\":\"model: \xEF\xBF\xBD\"},"
      "\"request_id\":null}");
  EXPECT_NE(error_body(kResponsesApi, {.message = "m"}).find("\"param\":null,\"code\":null"),
            std::string::npos);
  EXPECT_NE(error_body(kMessagesApi, {.status = 429}).find("rate_limit_error"), std::string::npos);
  EXPECT_NE(error_body(kMessagesApi, {.status = 500}).find("api_error"), std::string::npos);
  EXPECT_NE(error_body(kMessagesApi, {.status = 400}).find("invalid_request_error"), std::string::npos);
}

}  // namespace
}  // namespace baleen
