// Walks the table of known fields: what it says of each is what happens, and what the page says.
#include "protocols/known_fields.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <set>

#include "request_cases.h"

namespace baleen {
namespace {

using Use = KnownField::Use;

/// Fields that every request of the protocol has.
std::string required_fields(const Protocol& protocol) {
  if (&protocol == &kCompletionsApi) return R"("prompt": "hi")";
  if (&protocol == &kResponsesApi) return R"("input": "hi")";
  return R"("max_tokens": 9, "messages": [{"role": "user", "content": "hi"}])";
}

/// The last of equal names wins.
std::string body_with(const Protocol& protocol, std::string_view name, std::string_view value) {
  return fmt::format(R"({{{}, "{}": {}}})", required_fields(protocol), name, value);
}

TEST(KnownFields, EachNameOnce) {
  for (const Protocol* protocol : protocols()) {
    std::set<std::string_view> names;
    for (const KnownField& field : protocol->known_fields()) {
      EXPECT_TRUE(names.insert(field.name).second) << field.name;
      EXPECT_EQ(field.reason.empty(), field.use == Use::kHonoured) << field.name;
    }
  }
}

TEST(KnownFields, HonouredOnesAreRead) {
  // A field that is read refuses a value of some wrong type; one that is passed over takes them all.
  for (const Protocol* protocol : protocols()) {
    for (const KnownField& field : protocol->known_fields()) {
      if (field.use != Use::kHonoured) continue;
      bool refused = false;
      for (const char* wrong : {"\"\\u0001?\"", "7.5", "[7.5]", "{\"?\": {\"?\": 1}}", "true"}) {
        const auto result = protocol->parse(body_with(*protocol, field.name, wrong), test_context());
        const auto* error = std::get_if<ApiError>(&result);
        refused |= error != nullptr && error->param.starts_with(field.name);
      }
      EXPECT_TRUE(refused) << field.name << " takes anything";
    }
  }
}

TEST(KnownFields, RefusedOnesAreRefusedWithTheirReason) {
  for (const Protocol* protocol : protocols()) {
    for (const KnownField& field : protocol->known_fields()) {
      if (field.use != Use::kRefused) continue;
      const ApiError error = refused(protocol->parse, body_with(*protocol, field.name, R"({"?": "?"})"));
      EXPECT_EQ(error.status, 400);
      EXPECT_EQ(error.message, fmt::format("{}: {}", field.name, field.reason));
      for (const std::string_view nothing :
           {std::string_view("null"), std::string_view("false"), std::string_view("\"\""),
            std::string_view("[]"), field.harmless}) {
        if (!nothing.empty()) (void)accepted(protocol->parse, body_with(*protocol, field.name, nothing));
      }
    }
  }
}

TEST(KnownFields, IgnoredOnesChangeNothing) {
  for (const Protocol* protocol : protocols()) {
    for (const KnownField& field : protocol->known_fields()) {
      if (field.use != Use::kIgnored) continue;
      const ApiRequest request = accepted(protocol->parse, body_with(*protocol, field.name, "\"x\""));
      EXPECT_TRUE(request.ignored.empty()) << field.name;
    }
  }
}

TEST(KnownFields, UnknownOnesAreNoted) {
  for (const Protocol* protocol : protocols()) {
    const ApiRequest request = accepted(protocol->parse, body_with(*protocol, "max_tokns", "5"));
    EXPECT_EQ(request.ignored, std::vector<std::string>{"max_tokns"});
    EXPECT_TRUE(accepted(protocol->parse, body_with(*protocol, "max_tokns", "null")).ignored.empty());
  }
}

TEST(KnownFields, ThePageListsThem) {
  std::ifstream file("docs/protocols.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  for (const Protocol* protocol : protocols()) {
    for (const KnownField& field : protocol->known_fields()) {
      EXPECT_NE(page.find(fmt::format("`{}`", field.name)), std::string::npos) << field.name;
    }
  }
}

}  // namespace
}  // namespace baleen
