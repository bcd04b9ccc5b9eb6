#include "server/access.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "tests/support/temporary_folder.h"

namespace baleen {
namespace {

HttpRequest from(std::string host, std::string origin = "") {
  HttpRequest head{.method = "GET", .path = "/v1/models"};
  if (!host.empty()) head.headers.emplace_back("Host", std::move(host));
  if (!origin.empty()) head.headers.emplace_back("Origin", std::move(origin));
  return head;
}

int status_of(const Access& access, const HttpRequest& head) {
  const auto error = access.refuse_source(head);
  return error ? error->status : 200;
}

ApiKeys some_keys() {
  const test::TemporaryFolder folder;
  AtomicFileWriter writer(folder / "keys");
  writer.write("secret\n");
  writer.commit();
  return ApiKeys(folder / "keys");
}

TEST(Access, LoopbackNames) {
  for (const char* host : {"localhost", "LocalHost:8080", "localhost.", "127.0.0.1", "127.0.0.1:1",
                           "127.255.0.9", "[::1]", "[::1]:8080"})
    EXPECT_TRUE(is_loopback_name(host)) << host;
  for (const char* host :
       {"evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "127.0.0", "128.0.0.1",
        "127.0.0.256", "127.0.0.1x", "[::2]", "::1", "", "0.0.0.0", "127..0.1"})
    EXPECT_FALSE(is_loopback_name(host)) << host;
}

TEST(Access, ALoopbackServerWithoutKeysAnswersToLoopbackNamesOnly) {
  const Access access({}, "127.0.0.1");
  EXPECT_EQ(status_of(access, from("localhost:8080")), 200);
  EXPECT_EQ(status_of(access, from("")), 200) << "HTTP/1.0";
  EXPECT_EQ(status_of(access, from("evil.example")), 403);
  EXPECT_EQ(status_of(access, from("evil.example", "http://evil.example")), 403) << "DNS rebinding";
  EXPECT_NE(access.refuse_source(from("evil.example"))->message.find("‹allowed host›"), std::string::npos);
}

TEST(Access, NamesMayBeAllowed) {
  const Access access({.allowed_hosts = {"fox.example"}}, "127.0.0.1");
  EXPECT_EQ(status_of(access, from("Fox.Example:8080")), 200);
  EXPECT_EQ(status_of(access, from("localhost")), 200);
  EXPECT_EQ(status_of(access, from("evil.example")), 403);
  const Access everywhere({.allowed_hosts = {"fox.example"}}, "0.0.0.0");
  EXPECT_EQ(status_of(everywhere, from("evil.example")), 403);
}

TEST(Access, WithKeysOrBeyondTheLoopbackAnyNameWillDo) {
  EXPECT_EQ(status_of(Access({.keys = some_keys()}, "127.0.0.1"), from("fox.example")), 200);
  EXPECT_EQ(status_of(Access({}, "0.0.0.0"), from("fox.example")), 200);
}

TEST(Access, PagesOfOtherOriginsMayNotAsk) {
  const Access access({}, "127.0.0.1");
  EXPECT_EQ(status_of(access, from("localhost:8080", "http://localhost:8080")), 200);
  EXPECT_EQ(status_of(access, from("localhost:8080", "http://localhost:9090")), 403);
  EXPECT_EQ(status_of(access, from("localhost:8080", "https://evil.example")), 403);
  EXPECT_EQ(status_of(access, from("localhost:8080", "null")), 403);
}

TEST(Access, OriginsMayBeGiven) {
  const Access access({.cors_origins = {"https://chat.example"}}, "127.0.0.1");
  const HttpRequest good = from("localhost:8080", "https://chat.example");
  EXPECT_EQ(status_of(access, good), 200);
  EXPECT_EQ(status_of(access, from("localhost:8080", "http://chat.example")), 403);
  const Access::Headers headers = access.cors_headers(good);
  EXPECT_EQ(headers.front(),
            (std::pair<std::string, std::string>("Access-Control-Allow-Origin", "https://chat.example")));
  EXPECT_TRUE(access.cors_headers(from("localhost:8080")).empty());
  EXPECT_TRUE(access.cors_headers(from("localhost:8080", "http://localhost:8080")).empty());
}

TEST(Access, EveryOriginNeedsKeys) {
  EXPECT_THROW(Access({.cors_origins = {"*"}}, "127.0.0.1"), Error);
  const Access access({.keys = some_keys(), .cors_origins = {"*"}}, "127.0.0.1");
  EXPECT_EQ(status_of(access, from("localhost", "https://any.example")), 200);
  EXPECT_EQ(access.cors_headers(from("localhost", "https://any.example")).front().second,
            "https://any.example");
}

TEST(Access, OriginsAreChecked) {
  for (const char* origin : {"", "chat.example", "https://", "https://chat.example/", "https://chat example"})
    EXPECT_THROW(Access({.cors_origins = {origin}}, "127.0.0.1"), Error) << origin;
}

TEST(Access, APreflightHearsWhatIsAllowed) {
  const Access access({.cors_origins = {"https://chat.example"}}, "127.0.0.1");
  HttpRequest preflight = from("localhost", "https://chat.example");
  preflight.headers.emplace_back("Access-Control-Request-Headers", "authorization,x-stainless-os");
  const auto value = [](const HttpResponse& response, std::string_view name) {
    for (const auto& [key, text] : response.headers)
      if (key == name) return text;
    return std::string();
  };
  const HttpResponse response = access.answer_options(preflight, "POST, OPTIONS");
  EXPECT_EQ(response.status, 204);
  EXPECT_EQ(value(response, "Access-Control-Allow-Methods"), "POST, OPTIONS");
  EXPECT_EQ(value(response, "Access-Control-Allow-Headers"), "authorization,x-stainless-os");
  EXPECT_EQ(value(response, "Access-Control-Max-Age"), "600");
  preflight.headers.back().second = "a\"b";
  EXPECT_EQ(value(access.answer_options(preflight, "POST"), "Access-Control-Allow-Headers"),
            "authorization, content-type, x-api-key");
  const HttpResponse plain = access.answer_options(from("localhost"), "GET, OPTIONS");
  EXPECT_EQ(value(plain, "Allow"), "GET, OPTIONS");
  EXPECT_EQ(value(plain, "Access-Control-Allow-Origin"), "");
}

}  // namespace
}  // namespace baleen
