// The whole model by plain loops and by SIMD, on every instruction set of this machine.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "tests/support/compare.h"
#include "tests/support/every_target.h"
#include "tests/support/run_sequence.h"

namespace baleen {
namespace {

/// The beginning of a story: on text that it knows the model is calmer than on random tokens.
std::vector<TokenId> story(std::size_t num_tokens) {
  const auto stories = nlohmann::json::parse(read_text_file("tests/forward/goldens/stories_nll.json"));
  auto tokens = stories[0]["ids"].get<std::vector<TokenId>>();
  tokens.resize(num_tokens);
  return tokens;
}

test::SequenceLogits logits(Precision precision, std::vector<ForcedVariant> forced) {
  Engine engine("models/stories", {.precision = precision,
                                   .num_threads = 2,
                                   .max_batch_tokens = 64,
                                   .max_logit_rows = 64,
                                   .cache_tokens = 256,
                                   .drafts = true,
                                   .forced_variants = forced});
  return test::run_sequence(engine, story(18), 11);
}

const test::SequenceLogits& reference(Precision precision) {
  static std::map<Precision, test::SequenceLogits> computed;
  const auto found = computed.find(precision);
  return found != computed.end()
             ? found->second
             : computed.emplace(precision, logits(precision, {{"", "reference"}})).first->second;
}

class ReferenceKernels : public test::EveryTarget {};

TEST_P(ReferenceKernels, AgreeWithSimd) {
  struct Case {
    Precision precision;
    double norm;
  };
  // Float32 sums against double sums; where activations are rounded, a sum near the middle between two BF16
  // (or e4m3) numbers falls to either, and six layers carry that on.
  for (const Case& one :
       {Case{Precision::kExact, 1e-5}, Case{Precision::kBf16, 0.02}, Case{Precision::kReleased, 0.03}}) {
    const test::SequenceLogits got = logits(one.precision, {});
    const test::SequenceLogits& want = reference(one.precision);
    EXPECT_CLOSE(got.main, want.main, {.norm = one.norm}) << precision_name(one.precision);
    EXPECT_CLOSE(got.mtp, want.mtp, {.norm = one.norm}) << precision_name(one.precision) << ", MTP";
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, ReferenceKernels, testing::ValuesIn(test::compiled_targets()),
                         test::target_name);

}  // namespace
}  // namespace baleen
