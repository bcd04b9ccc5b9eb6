// Speed of loading, encoding and decoding, on one core.
//   BALEEN_BENCH_MODEL  folder with tokenizer.json; default models/stories
//   BALEEN_BENCH_TEXT   file of prose, repeated to a megabyte; default: sentences drawn from a list of words
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "tokenizer/stream_decoder.h"
#include "tokenizer/tokenizer.h"

namespace baleen {
namespace {

constexpr std::size_t kTextBytes = std::size_t{1} << 20;

std::string setting(const char* variable, const char* otherwise) {
  const char* value = std::getenv(variable);
  return value != nullptr ? value : otherwise;
}

std::string model() { return setting("BALEEN_BENCH_MODEL", "models/stories"); }

const Tokenizer& tokenizer() {
  static const Tokenizer loaded = Tokenizer::load(model());
  return loaded;
}

/// Words of random syllables, frequent ones short, as Zipf found them in prose: a vocabulary of 20,000 words
/// keeps the word cache honest.
std::string invented_prose() {
  std::mt19937 random(1);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  constexpr const char* kSyllables[] = {"ba", "con", "der", "ing", "lo",  "men",
                                        "na", "per", "re",  "sta", "ter", "un"};
  std::vector<std::string> words;
  for (std::size_t i = 0; i < 20'000; ++i) {
    std::string word;
    for (std::size_t left = 1 + (i > 50) + (i > 1000) + below(2); left > 0; --left)
      word += kSyllables[below(12)];
    words.push_back(word);
  }
  std::uniform_real_distribution<double> exponent(0.0, 1.0);
  std::string text;
  while (text.size() < kTextBytes) {
    const double rank = std::pow(static_cast<double>(words.size()), exponent(random));  // density ~ 1 / rank
    text += words[std::min(words.size() - 1, static_cast<std::size_t>(rank))];
    text += below(12) == 0 ? ". " : " ";
  }
  return text;
}

const std::string& prose() {
  static const std::string text = [] {
    const std::string path = setting("BALEEN_BENCH_TEXT", "");
    if (path.empty()) return invented_prose();
    const std::string once = read_text_file(path);
    if (once.empty()) fail("{}: is empty", path);
    std::string repeated = once;
    while (repeated.size() < kTextBytes) repeated += once;
    return repeated;
  }();
  return text;
}

void encode_text(benchmark::State& state, std::string_view text) {
  for (auto _ : state) benchmark::DoNotOptimize(tokenizer().encode(text));
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) *
                          static_cast<std::int64_t>(text.size()));
}

void load(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(Tokenizer::load(model()));
}
BENCHMARK(load)->Unit(benchmark::kMillisecond);

void encode(benchmark::State& state) { encode_text(state, prose()); }
BENCHMARK(encode)->Unit(benchmark::kMillisecond);

/// A prompt of a few hundred words: nothing to remember from.
void encode_short(benchmark::State& state) { encode_text(state, std::string_view(prose()).substr(0, 2000)); }
BENCHMARK(encode_short)->Unit(benchmark::kMicrosecond);

/// One piece of a megabyte.
void encode_one_letter(benchmark::State& state) { encode_text(state, std::string(kTextBytes, 'a')); }
BENCHMARK(encode_one_letter)->Unit(benchmark::kMillisecond);

void decode(benchmark::State& state) {
  const auto ids = tokenizer().encode(prose()).value();
  for (auto _ : state) benchmark::DoNotOptimize(tokenizer().decode(ids));
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) *
                          static_cast<std::int64_t>(prose().size()));
}
BENCHMARK(decode)->Unit(benchmark::kMillisecond);

void decode_stream(benchmark::State& state) {
  const auto ids = tokenizer().encode(prose()).value();
  for (auto _ : state) {
    StreamDecoder decoder(tokenizer());
    for (const TokenId id : ids) benchmark::DoNotOptimize(decoder.push(id));
    benchmark::DoNotOptimize(decoder.finish());
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) *
                          static_cast<std::int64_t>(prose().size()));
}
BENCHMARK(decode_stream)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace baleen
