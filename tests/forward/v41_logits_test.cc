// DeepSeek-V4.1 as a whole: logits against the NumPy forward pass (v41_oracle.py), what a sequence keeps when
// it comes in pieces, in batches, behind a prefix that was found or after tokens were taken back, and which
// data of the family decide results.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "base/check.h"
#include "engine/engine.h"
#include "model/model_family.h"
#include "model/model_folder.h"
#include "model/weights.h"
#include "numeric/bf16.h"
#include "tests/support/compare.h"
#include "tests/support/edited_checkpoint.h"
#include "tests/support/golden_logits.h"
#include "tests/support/random_checkpoint.h"
#include "tests/support/run_sequence.h"
#include "tests/support/temporary_folder.h"

namespace baleen {
namespace {

constexpr const char* kStories = "models/stories";
constexpr std::int64_t kVocab = 4096;
/// Of 40: a quarter. Measured 32, 25 and 20.
constexpr int kLeastSameRows = 10;

const test::GoldenFile& golden() {
  static const test::GoldenFile file("tests/forward/goldens/tiny-v41.safetensors");
  return file;
}

constexpr int kSmallBits = 12;

/// BF16 weights times 2^-12.
void make_small(std::span<std::byte> weights) {
  for (std::size_t i = 0; i < weights.size(); i += sizeof(Bf16Bits)) {
    Bf16Bits bits;
    std::memcpy(&bits, &weights[i], sizeof(bits));
    bits = float_to_bf16(std::ldexp(bf16_to_float(bits), -kSmallBits));
    std::memcpy(&weights[i], &bits, sizeof(bits));
  }
}

/// The same of FP8 weights, by their scales, which are powers of two.
void make_scales_small(std::span<std::byte> scales) {
  for (std::byte& scale : scales) {
    BALEEN_CHECK_LT(kSmallBits, std::to_integer<int>(scale));
    scale = std::byte{static_cast<std::uint8_t>(std::to_integer<int>(scale) - kSmallBits)};
  }
}

/// The golden's weights, with an embedding divided by 4096, and so with all that a norm follows at once:
/// streams begin so small, and queries, rows, latents, index keys and keys of n-grams are, that an epsilon of
/// 1e-6 would be most of their mean square. What comes behind the norms is the golden's.
class V41Folder {
 public:
  V41Folder() {
    const ModelConfig config = preset_config("tiny-v41");
    const test::RandomCheckpoint made(config, static_cast<std::uint64_t>(golden().scalar("seed")), kStories);
    made_checksum = test::checksum(made.weights());
    test::EditedCheckpoint small(made.path());
    make_small(small.tensors.at("embed.weight").bytes);
    for (auto& [name, tensor] : small.tensors) {
      if (!name.starts_with("layers.")) continue;
      if (name.ends_with("attn.compressor.wkv.weight") || name.ends_with("attn.indexer.wk.weight"))
        make_small(tensor.bytes);
      if (name.ends_with("attn.wq_a.scale") || name.ends_with("attn.wkv.scale"))
        make_scales_small(tensor.bytes);
      // The value of the n-grams, which no norm follows, stands behind a key for each stream.
      if (name.ends_with("engram.wkv.scale")) {
        const auto num_streams = static_cast<std::size_t>(config.hc_mult);
        make_scales_small(
            std::span(tensor.bytes).first(tensor.bytes.size() / (num_streams + 1) * num_streams));
      }
    }
    small.write(path());
  }
  [[nodiscard]] std::filesystem::path path() const { return folder_ / "small"; }

  std::int64_t made_checksum = 0;

 private:
  test::TemporaryFolder folder_;
};

const V41Folder& folder() {
  static const V41Folder made;
  return made;
}

std::vector<TokenId> golden_tokens() { return golden().ints("tokens"); }

EngineOptions options_for(Precision precision, std::int64_t num_tokens = 419) {
  return {.precision = precision,
          .num_threads = 2,
          .max_batch_tokens = num_tokens,
          .max_logit_rows = num_tokens,
          .cache_tokens = 1024};
}

double distance(std::span<const float> a, std::span<const float> b) {
  double squares = 0;
  for (std::size_t i = 0; i < a.size(); ++i) squares += std::pow(static_cast<double>(a[i]) - b[i], 2);
  return std::sqrt(squares) / test::norm_of(b);
}

/// Logits of all positions, fed in pieces of these sizes, the last one as often as needed.
std::vector<float> fed_in(StepEngine& engine, std::span<const TokenId> tokens,
                          std::span<const std::size_t> sizes) {
  const SequenceId sequence = *engine.open({});
  test::SequenceLogits logits;
  std::size_t piece = 0;
  for (std::size_t begin = 0; begin < tokens.size(); ++piece) {
    const std::size_t count = std::min(sizes[std::min(piece, sizes.size() - 1)], tokens.size() - begin);
    logits.append(test::step(engine, sequence, tokens.subspan(begin, count)));
    begin += count;
  }
  engine.close(sequence, false);
  return logits.main;
}

TEST(V41Logits, ExactAgreesWithTheOracleAtEveryPosition) {
  ASSERT_EQ(folder().made_checksum, golden().scalar("checksum")) << "`init` writes other weights than it did";
  Engine engine(folder().path(), options_for(Precision::kExact));
  const std::vector<TokenId> tokens = golden_tokens();
  test::expect_golden(golden(), "logits", test::run_sequence(engine, tokens, tokens.size()).main);
}

/// Values come to FP8, FP4 and BF16 at the same places as in NumPy, or no row would be NumPy's. Where a sum
/// in another order makes a single one come to its neighbour, all that follows is off by 1e-2 or more.
TEST(V41Logits, ReleasedRoundsWhereTheOracleDoes) {
  Engine engine(folder().path(), options_for(Precision::kReleased));
  const std::vector<TokenId> tokens = golden_tokens();
  const auto length = static_cast<std::size_t>(golden().scalar("short_length"));
  std::vector<float> rows;
  for (const std::int32_t begin : golden().ints("short_begins")) {
    const auto prompt = std::span(tokens).subspan(static_cast<std::size_t>(begin), length);
    const std::vector<float> logits = test::run_sequence(engine, prompt, length).main;
    rows.insert(rows.end(), logits.begin(), logits.end());
  }
  const std::vector<double> errors = test::row_errors(golden(), "released", rows);
  // Of each place in a prompt: the second token ends a pair, the third is pending.
  for (std::size_t place = 0; place < length; ++place) {
    int num_same = 0, num_rows = 0;
    for (std::size_t row = place; row < errors.size(); row += length, ++num_rows)
      num_same += errors[row] < 1e-6 ? 1 : 0;
    RecordProperty("same_rows_" + std::to_string(place), num_same);
    EXPECT_GE(num_same, kLeastSameRows) << "of " << num_rows << " rows at place " << place;
  }
}

class V41Sequences : public testing::TestWithParam<Precision> {};

TEST_P(V41Sequences, PiecesAreTheWholeToTheBit) {
  Engine engine(folder().path(), options_for(GetParam()));
  const std::vector<TokenId> tokens = golden_tokens();
  const std::vector<float> whole = test::run_sequence(engine, tokens, tokens.size()).main;
  // A pending token at nearly every boundary; n-grams across all of them; prompts longer than the window.
  EXPECT_SAME_BITS(fed_in(engine, tokens, std::vector<std::size_t>{7, 1, 2, 13, 3, 131, 35}), whole);
  EXPECT_SAME_BITS(fed_in(engine, tokens, std::vector<std::size_t>{255, 1}), whole);
  EXPECT_SAME_BITS(fed_in(engine, std::span(tokens).first(150), std::vector<std::size_t>{1}),
                   std::span(whole).first(150 * kVocab));
}

TEST_P(V41Sequences, BatchCompositionDoesNotShow) {
  EngineOptions options = options_for(GetParam());
  options.max_sequences = 2;
  Engine engine(folder().path(), options);
  const std::vector<TokenId> tokens = golden_tokens();
  const std::span<const TokenId> first = std::span(tokens).first(200), second = std::span(tokens).last(201);
  const std::vector<float> want_first = test::run_sequence(engine, first, first.size()).main,
                           want_second = test::run_sequence(engine, second, second.size()).main;
  const SequenceId a = *engine.open({}), b = *engine.open({});
  std::vector<float> got_first, got_second;
  for (std::size_t at = 0; at < 200; at += 25) {
    // Odd lengths beside even ones: a latent is pending in one sequence alone.
    const std::size_t count = at == 175 ? 26 : 25;
    const StepInput inputs[] = {{a, first.subspan(at, 25), WantedLogits::kAll},
                                {b, second.subspan(at, count), WantedLogits::kAll}};
    const Result<StepOutput> output = engine.step(inputs);
    ASSERT_TRUE(output) << output.error();
    const auto logits =
        std::span(output.value().logits.data(), static_cast<std::size_t>(output.value().logits.size()));
    const auto end = logits.begin() + 25 * static_cast<std::ptrdiff_t>(kVocab);
    got_first.insert(got_first.end(), logits.begin(), end);
    got_second.insert(got_second.end(), end, logits.end());
  }
  EXPECT_SAME_BITS(got_first, want_first);
  EXPECT_SAME_BITS(got_second, want_second);
}

TEST_P(V41Sequences, APrefixThatWasFoundChangesNothing) {
  EngineOptions options = options_for(GetParam());
  options.prefix_cache = true;
  Engine engine(folder().path(), options), cold(folder().path(), options_for(GetParam()));
  const std::vector<TokenId> tokens = golden_tokens();
  const std::vector<float> whole = test::run_sequence(cold, tokens, tokens.size()).main;
  const SequenceId before = *engine.open({});
  static_cast<void>(test::feed(engine, before, std::span(tokens).first(301), 301));
  engine.close(before, true);
  const SequenceId found = *engine.open(tokens);
  ASSERT_EQ(engine.length(found), kPageTokens);
  // The first token behind the prefix begins with n-grams that the prefix ends.
  const std::span<const TokenId> rest = std::span(tokens).subspan(kPageTokens);
  EXPECT_SAME_BITS(test::feed(engine, found, rest, 1).main, std::span(whole).subspan(kPageTokens * kVocab));
}

TEST_P(V41Sequences, PagesFromDiskChangeNothing) {
  const std::vector<TokenId> tokens = test::random_tokens(2600, kVocab, 7);
  EngineOptions options = options_for(GetParam(), 2600);
  options.max_logit_rows = 40;
  options.cache_tokens = 3072;
  Engine cold(folder().path(), options);
  const SequenceId plain = *cold.open({});
  static_cast<void>(test::step(cold, plain, std::span(tokens).first(2560), WantedLogits::kNone));
  const std::vector<float> want = test::feed(cold, plain, std::span(tokens).last(40), 40).main;
  for (const WindowPolicy policy : {WindowPolicy::kAll, WindowPolicy::kNone}) {
    const test::TemporaryFolder disk;
    options.disk = DiskCacheOptions{
        .folder = disk.path(), .budget_bytes = std::int64_t{1} << 30, .window_policy = policy};
    {
      Engine leaves(folder().path(), options);
      const SequenceId sequence = *leaves.open({});
      static_cast<void>(test::step(leaves, sequence, std::span(tokens).first(2560), WantedLogits::kNone));
      leaves.close(sequence, true);
    }
    Engine engine(folder().path(), options);
    const SequenceId found = *engine.open(tokens);
    const std::int64_t length = engine.length(found);
    // Without window rows the last ones are computed again: a window for each block.
    EXPECT_EQ(length, policy == WindowPolicy::kAll ? 2560 : 2560 - 10 * 128);
    if (length < 2560) {
      const auto again = std::span(tokens).subspan(static_cast<std::size_t>(length),
                                                   static_cast<std::size_t>(2560 - length));
      static_cast<void>(test::step(engine, found, again, WantedLogits::kNone));
    }
    EXPECT_SAME_BITS(test::feed(engine, found, std::span(tokens).last(40), 40).main, want);
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, V41Sequences, testing::Values(Precision::kExact, Precision::kReleased),
                         [](const auto& tested) { return std::string(precision_name(tested.param)); });

/// The golden holds what the composition decides: each of these would be another model.
TEST(V41Logits, EveryDatumOfTheModelDecidesResults) {
  const std::vector<TokenId> tokens = golden_tokens();
  const auto logits_of = [&](const ModelConfig& config) {
    Engine engine(std::make_shared<const ModelWeights>(config, Checkpoint(folder().path())),
                  options_for(Precision::kExact));
    return test::run_sequence(engine, tokens, tokens.size()).main;
  };
  const ModelConfig config = load_config(folder().path());
  const std::vector<float> right = logits_of(config);
  static ModelFamily norms_queries = kDeepSeekV41;
  norms_queries.norms_queries = true;
  const auto expect_other = [&](const char* what, const ModelConfig& changed, double least) {
    EXPECT_GT(distance(logits_of(changed), right), least) << what;
  };
  ModelConfig changed = config;
  changed.family = &norms_queries;
  expect_other("queries are normed", changed, 1e-3);
  changed = config;
  changed.rms_norm_eps = 1e-6;
  expect_other("an epsilon of 1e-6", changed, 1e-3);
  changed = config;
  changed.streams->candidate_topk_blocks = 64;
  expect_other("candidates are all entries", changed, 1e-4);
  changed = config;
  changed.index_topk = 512;
  expect_other("all entries are selected", changed, 1e-4);
  changed = config;
  changed.engram->pad_token_id = 3;
  expect_other("another padding before the first token", changed, 1e-6);
}

}  // namespace
}  // namespace baleen
