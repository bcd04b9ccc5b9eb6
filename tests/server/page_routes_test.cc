// What the chat page gets from its server beside replies: itself, its policy, the PDF reader, kept
// conversations.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "server/page.h"
#include "tests/server/running_server.h"
#include "tests/support/temporary_folder.h"

namespace baleen {
namespace {

using Json = nlohmann::json;
using test::http_request;
using test::HttpHeaders;
using test::HttpReply;
using test::RunningServer;
using test::RunningServerOptions;
using test::TemporaryFolder;

const std::string kConversation = R"({"title":"Fox","changed":5,"turns":[]})";

std::string connections_of(const std::vector<std::string>& mcp_origins) {
  const ServedPage page = served_page(mcp_origins);
  const std::string policy = page.policy.substr(page.policy.find("connect-src"));
  const std::string sources = policy.substr(0, policy.find(';'));
  EXPECT_NE(page.html.find(sources + ";"), std::string::npos) << "the page's own policy says the same";
  return sources;
}

TEST(Page, SpeaksToItsServerAndToThoseThatTheOperatorAllows) {
  const std::string loopback = "connect-src 'self' http://localhost:* http://127.0.0.1:*";
  EXPECT_EQ(connections_of({}), loopback);
  EXPECT_EQ(connections_of({"none"}), "connect-src 'self'");
  EXPECT_EQ(connections_of({"https://tools.example:8443"}), "connect-src 'self' https://tools.example:8443");
  EXPECT_EQ(connections_of({"loopback", "http://10.0.0.7:*"}), loopback + " http://10.0.0.7:*");
}

TEST(Page, AnOriginThatCouldChangeThePolicyIsRefused) {
  for (const std::string& origin : std::vector<std::string>{
           "*", "https://*", "https://a.example; script-src *", "https://a.example 'unsafe-inline'",
           "https:", "a.example", "https://", "ftp://a.example", "https://a.example/path",
           "https://a.example:", "https://a.example:port", "https://a.example:999999", "'self'", "",
           "javascript://x", "https://a,b", "https://user@a.example"}) {
    EXPECT_THROW(static_cast<void>(served_page(std::vector<std::string>{origin})), Error) << origin;
  }
  EXPECT_THROW(static_cast<void>(served_page(std::vector<std::string>{"none", "loopback"})), Error);
}

TEST(PageRoutes, ThePdfReaderMayLoadNothing) {
  RunningServer server;
  const HttpReply reader = server.get("/pdf_reader.js");
  EXPECT_EQ(reader.status, 200);
  EXPECT_NE(reader.head.find("Content-Type: text/javascript"), std::string::npos) << reader.head;
  EXPECT_NE(reader.head.find("Content-Security-Policy: default-src 'none'\r\n"), std::string::npos);
  EXPECT_GT(reader.body.size(), 100'000U);
}

TEST(PageRoutes, WithoutAFolderNothingIsKept) {
  RunningServer server;
  EXPECT_EQ(Json::parse(server.get("/page.json").body), Json::parse(R"({"conversations":false})"));
  const HttpReply refused = server.get("/conversations");
  EXPECT_EQ(refused.status, 404);
  EXPECT_NE(refused.body.find("‹conversations›"), std::string::npos) << refused.body;
  EXPECT_EQ(http_request(server.port(), "PUT", "/conversations/x", kConversation).status, 404);
}

TEST(PageRoutes, RefusalsNameOptionsAsTheProgramDoes) {
  RunningServerOptions options;
  options.server.name_options = [](std::string_view sentence) { return fmt::format("[{}]", sentence); };
  RunningServer server(std::move(options));
  const HttpReply refused = server.get("/conversations");
  EXPECT_EQ(Json::parse(refused.body)["error"]["message"],
            "[this server keeps no conversations; start it with ‹conversations› FOLDER]");
}

TEST(PageRoutes, ConversationsAreKeptListedReadAndDeleted) {
  const TemporaryFolder folder;
  RunningServerOptions options;
  options.server.conversations.folder = folder.path();
  RunningServer server(std::move(options));
  const auto ask = [&](std::string_view method, std::string_view path, std::string_view body = "",
                       const HttpHeaders& headers = {}) {
    return http_request(server.port(), method, path, body, headers);
  };
  EXPECT_EQ(Json::parse(server.get("/page.json").body), Json::parse(R"({"conversations":true})"));
  EXPECT_EQ(Json::parse(server.get("/conversations").body)["conversations"], Json::array());

  const HttpReply written = ask("PUT", "/conversations/fox-1", kConversation, {{"If-None-Match", "*"}});
  ASSERT_EQ(written.status, 200) << written.body;
  const std::string version = Json::parse(written.body)["version"];
  EXPECT_NE(written.head.find("ETag: \"" + version + "\""), std::string::npos) << written.head;
  EXPECT_EQ(Json::parse(server.get("/conversations").body)["conversations"],
            Json::array({{{"id", "fox-1"},
                          {"title", "Fox"},
                          {"changed", 5.0},
                          {"bytes", kConversation.size()},
                          {"version", version}}}));
  const HttpReply read = server.get("/conversations/fox-1");
  EXPECT_EQ(read.body, kConversation);
  EXPECT_NE(read.head.find("ETag: \"" + version + "\""), std::string::npos);

  const std::string next = R"({"title":"Owl","turns":[]})";
  EXPECT_EQ(ask("PUT", "/conversations/fox-1", next, {{"If-Match", "\"0000\""}}).status, 412);
  EXPECT_EQ(ask("PUT", "/conversations/fox-1", next, {{"If-Match", "0000"}}).status, 400);
  EXPECT_EQ(ask("PUT", "/conversations/fox-1", next, {{"If-Match", "\"" + version + "\""}}).status, 200);
  EXPECT_EQ(ask("PUT", "/conversations/fox-1", "no JSON").status, 400);
  EXPECT_EQ(ask("PUT", "/conversations", next).status, 405);
  EXPECT_EQ(ask("DELETE", "/conversations").status, 405);
  EXPECT_EQ(ask("POST", "/conversations/fox-1", next).status, 405);
  EXPECT_EQ(ask("PUT", "/conversations/a/b", next).status, 400);
  EXPECT_EQ(ask("PUT", "/conversations/", next).status, 405);  // the list's address
  EXPECT_EQ(ask("PUT", "/conversations/..%2f..%2fx", next).status, 400);
  EXPECT_EQ(ask("PUT", "/conversations/%2e%2e%5cx", next).status, 400);
  EXPECT_EQ(ask("DELETE", "/conversations/fox-1").status, 200);
  EXPECT_EQ(server.get("/conversations/fox-1").status, 404);
  EXPECT_EQ(ask("DELETE", "/conversations/fox-1").status, 404);
}

TEST(PageRoutes, ConversationsWantTheKeyAndTheOriginThatEverythingWants) {
  const TemporaryFolder folder;
  std::ofstream(folder / "keys") << "alice-key\nbob-key\n";
  RunningServerOptions options;
  options.server.conversations.folder = folder / "kept";
  options.server.access.keys = ApiKeys(folder / "keys");
  RunningServer server(std::move(options));
  const auto ask = [&](std::string_view method, std::string_view path, std::string_view body,
                       const HttpHeaders& headers) {
    return http_request(server.port(), method, path, body, headers);
  };
  const HttpHeaders alice = {{"Authorization", "Bearer alice-key"}}, bob = {{"x-api-key", "bob-key"}};
  EXPECT_EQ(ask("GET", "/conversations", "", {}).status, 401);
  EXPECT_EQ(ask("PUT", "/conversations/x", kConversation, {}).status, 401);
  EXPECT_EQ(ask("DELETE", "/conversations/x", "", {{"Authorization", "Bearer wrong"}}).status, 401);
  ASSERT_EQ(ask("PUT", "/conversations/x", kConversation, alice).status, 200);
  EXPECT_EQ(ask("GET", "/conversations/x", "", bob).status, 404);
  EXPECT_EQ(Json::parse(ask("GET", "/conversations", "", bob).body)["conversations"].size(), 0U);
  EXPECT_EQ(Json::parse(ask("GET", "/conversations", "", alice).body)["conversations"].size(), 1U);
  HttpHeaders elsewhere = alice;
  elsewhere.emplace_back("Origin", "https://evil.example");
  EXPECT_EQ(ask("GET", "/conversations/x", "", elsewhere).status, 403);
  EXPECT_EQ(ask("DELETE", "/conversations/x", "", elsewhere).status, 403);
}

}  // namespace
}  // namespace baleen
