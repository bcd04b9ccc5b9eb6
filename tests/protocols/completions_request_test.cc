// Completions requests.
#include "request_cases.h"

namespace baleen {
namespace {

const std::string kBase = R"("model": "m", "prompt": "p")";

std::vector<RawPrompt> prompts_of(const std::string& prompt) {
  return accepted(parse_completions, R"({"model": "m", "prompt": )" + prompt + "}").prompts;
}

TEST(CompletionsRequest, Prompts) {
  using Tokens = std::vector<TokenId>;
  EXPECT_EQ(prompts_of(R"("a")"), std::vector<RawPrompt>{"a"});
  EXPECT_EQ(prompts_of(R"("")"), std::vector<RawPrompt>{""});
  EXPECT_EQ(prompts_of(R"(["a", "b"])"), (std::vector<RawPrompt>{"a", "b"}));
  EXPECT_EQ(prompts_of("[0, 99]"), (std::vector<RawPrompt>{Tokens{0, 99}}));
  EXPECT_EQ(prompts_of("[[1], [2, 3]]"), (std::vector<RawPrompt>{Tokens{1}, Tokens{2, 3}}));
}

TEST(CompletionsRequest, Fields) {
  const ApiRequest plain = accepted(parse_completions, "{" + kBase + "}");
  EXPECT_EQ(plain.protocol, &kCompletionsApi);
  EXPECT_EQ(plain.max_tokens, 16);
  EXPECT_FALSE(plain.logprobs || plain.echo || plain.stream);
  const ApiRequest request =
      accepted(parse_completions, "{" + kBase + R"(, "max_tokens": 3, "logprobs": 2, "n": 2,
    "best_of": 2, "stop": "x", "stream": true, "stream_options": {"include_usage": true}, "temperature": 0, "seed": 1,
    "suffix": null, "user": "u"})");
  EXPECT_EQ(request.max_tokens, 3);
  EXPECT_TRUE(request.logprobs && request.stream && request.include_usage);
  EXPECT_EQ(request.sampling.num_logprobs, 2);
  EXPECT_EQ(request.num_choices, 2);
  EXPECT_EQ(request.temperature, 0);
  EXPECT_TRUE(accepted(parse_completions, "{" + kBase + R"(, "echo": true})").echo);
}

TEST(CompletionsRequest, Refusals) {
  expect_refusals(parse_completions, kBase,
                  {
                      {R"("prompt": null)", "prompt", "found null"},
                      {R"("prompt": {})", "prompt", "an object"},
                      {R"("prompt": [])", "prompt", "empty array"},
                      {R"("prompt": [[]])", "prompt[0]", "empty array"},
                      {R"("prompt": [1, "a"])", "prompt[1]", "token id from 0 to 99, found \"a\""},
                      {R"("prompt": [100])", "prompt[0]", "found 100"},
                      {R"("prompt": [[1], [-1]])", "prompt[1][0]", "found -1"},
                      {R"("prompt": ["a", 7])", "prompt[1]", "a string or an array of tokens"},
                      {R"("suffix": "x")", "suffix", "cannot fill"},
                      {R"("best_of": 2)", "best_of", "above n"},
                      {R"("logprobs": 21)", "logprobs", "from 0 to 20"},
                      {R"("logprobs": true)", "logprobs", "whole number"},
                      {R"("max_tokens": 0)", "max_tokens", "with echo alone"},
                  });
  std::string many = R"("prompt": [)";
  for (int i = 0; i < 129; ++i) many += i == 0 ? "\"a\"" : ",\"a\"";
  expect_refusals(parse_completions, kBase, {{many + "]", "prompt", "129 prompts, where at most 128"}});
}

}  // namespace
}  // namespace baleen
