#include "http/target.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace baleen {
namespace {

TEST(Target, SplitsPathAndQuery) {
  const auto target = parse_target("/v1/models?limit=2&x=%2e");
  ASSERT_TRUE(target);
  EXPECT_EQ(target->path, "/v1/models");
  EXPECT_EQ(target->query, "limit=2&x=%2e");
  EXPECT_EQ(parse_target("/")->path, "/");
  EXPECT_EQ(parse_target("*")->path, "*");
  EXPECT_EQ(parse_target("/a..b/...")->path, "/a..b/...");
}

TEST(Target, DecodesOnce) {
  EXPECT_EQ(parse_target("/a%20b%C3%A9")->path, "/a b\xc3\xa9");
  EXPECT_EQ(parse_target("/%252e%252e/x")->path, "/%2e%2e/x");
}

TEST(Target, TakesTheAbsoluteFormOfProxies) {
  const auto target = parse_target("http://host:8080/v1/models?x=1");
  ASSERT_TRUE(target);
  EXPECT_EQ(target->path, "/v1/models");
  EXPECT_EQ(target->query, "x=1");
  EXPECT_EQ(target->authority, "host:8080");
  EXPECT_EQ(parse_target("http://host")->path, "/");
  EXPECT_EQ(parse_target("/x")->authority, "");
}

TEST(Target, RefusesWhatIsNoPlainPath) {
  for (const char* raw : {"",
                          "v1",
                          "https://host/path",
                          "http:///path",
                          "http://host/../x",
                          "http://host?query",
                          "host:443",
                          "//..",
                          "/..",
                          "/../etc/passwd",
                          "/a/..",
                          "/a/../b",
                          "/./a",
                          "/%2e%2e",
                          "/%2E%2e/x",
                          "/.%2e/x",
                          "/a%2f..%2fb",
                          "/a/..%2f",
                          "/..%5cx",
                          "/a\\b",
                          "/a%5c..%5cb",
                          "/a%00b",
                          "/a%0d%0aX: y",
                          "/a%7f",
                          "/%",
                          "/%2",
                          "/%zz",
                          "/a#b",
                          "/a b",
                          "/caf\xc3\xa9",
                          "/\x01"}) {
    EXPECT_FALSE(parse_target(raw)) << raw;
  }
}

TEST(Target, EveryPathSurvivesEncoding) {
  EXPECT_TRUE(rc::check("decode(encode(path)) is the path, or both are refused", [](const std::string& tail) {
    std::string raw = "/", plain = "/" + tail;
    for (const char c : tail) raw += c == '/' ? "/" : fmt::format("%{:02x}", static_cast<unsigned char>(c));
    const auto target = parse_target(raw);
    if (target) RC_ASSERT(target->path == plain);
    const auto bytes = parse_target(plain);
    if (bytes && plain.find_first_of("%?") == std::string::npos) RC_ASSERT(target.has_value());
  }));
}

}  // namespace
}  // namespace baleen
