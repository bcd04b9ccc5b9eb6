// The rows of the protocols: whole, and found by their paths.
#include <gtest/gtest.h>

#include <set>

#include "protocols/protocol.h"

namespace baleen {
namespace {

TEST(Protocols, EveryRowIsWholeAndDiffersFromTheOthers) {
  std::set<std::string_view> names, paths;
  for (const Protocol* protocol : protocols()) {
    EXPECT_TRUE(names.insert(protocol->name).second) << protocol->name;
    EXPECT_TRUE(paths.insert(protocol->path).second) << protocol->path;
    EXPECT_FALSE(protocol->prompt_field.empty()) << protocol->name;
    EXPECT_FALSE(protocol->known_fields().empty()) << protocol->name;
    ApiRequest request;
    request.protocol = protocol;
    EXPECT_NE(make_encoder(request, {}, {}), nullptr) << protocol->name;
    EXPECT_TRUE(std::holds_alternative<ApiError>(protocol->parse("", {}))) << protocol->name;
  }
}

TEST(Protocols, APathBelowOneHasItsErrors) {
  for (const Protocol* protocol : protocols()) {
    EXPECT_EQ(&protocol_of(protocol->path), protocol);
    EXPECT_EQ(&protocol_of(std::string(protocol->path) + "/8f3a"), protocol);
  }
  EXPECT_EQ(&protocol_of("/health"), &kChatCompletionsApi);
}

TEST(Protocols, ATooLongPromptIsRefusedInTheWordsOfEach) {
  const auto message = [](const Protocol& protocol) {
    return prompt_too_long(protocol, std::string(protocol.prompt_field), 12, 1, 10).message;
  };
  EXPECT_EQ(message(kMessagesApi), "prompt is too long: 12 tokens > 9 maximum");
  EXPECT_EQ(message(kResponsesApi),
            "This model's maximum context length is 10 tokens. However, the input of this request has 12 "
            "tokens, and "
            "the reply needs at least one. Please reduce the length of the input.");
}

}  // namespace
}  // namespace baleen
