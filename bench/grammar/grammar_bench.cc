// What a token costs under a grammar: fill, then accept, over replies encoded by the tokenizer.
//   BALEEN_BENCH_MODEL  folder with tokenizer.json; default models/stories
// Each line reports the first reply with new caches (first_*) and the replies after it. Times are of fill
// alone unless they say accept, and count the thread's processor time.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "grammar/reply_constraint.h"
#include "tokenizer/tokenizer.h"

namespace baleen {
namespace {

/// Processor time of this thread: a busy machine would otherwise show its time slices as the largest times.
double now_us() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) * 1e-3;
}

const Tokenizer& tokenizer() {
  static const Tokenizer loaded = [] {
    const char* folder = std::getenv("BALEEN_BENCH_MODEL");
    return Tokenizer::load(folder != nullptr ? folder : "models/stories");
  }();
  return loaded;
}

template <class T>
T value_of(Result<T> result) {
  if (!result) fail("{}", result.error());
  return std::move(result).value();
}

struct Reply {
  Grammar grammar;
  std::string text;
};

Reply tool_call() {
  const std::vector<ToolGrammar> tools = {
      {"edit_file",
       value_of(parse_python_json(R"({"type": "object", "properties": {"path": {"type": "string"},
         "old_text": {"type": "string"}, "new_text": {"type": "string"}, "count": {"type": "integer", "minimum": 1},
         "mode": {"enum": ["first", "all"]}}, "required": ["path", "old_text", "new_text"]})"))},
      {"run", value_of(parse_python_json(R"({"type": "object", "properties": {"command": {"type": "array",
         "items": {"type": "string"}}, "timeout": {"type": "number"}}, "required": ["command"]})"))}};
  return {value_of(tool_calls_grammar(tools, true)), R"(

<｜DSML｜tool_calls>
<｜DSML｜invoke name="edit_file">
<｜DSML｜parameter name="path" string="true">src/grammar/token_mask.cc</｜DSML｜parameter>
<｜DSML｜parameter name="old_text" string="true">  for (int i = 0; i < n; ++i) {
    total += values[i] < limit ? values[i] : limit;  // 日本語 too
  }</｜DSML｜parameter>
<｜DSML｜parameter name="new_text" string="true">  for (const int value : values) total += std::min(value, limit);</｜DSML｜parameter>
<｜DSML｜parameter name="count" string="false">12</｜DSML｜parameter>
</｜DSML｜invoke>
<｜DSML｜invoke name="run">
<｜DSML｜parameter name="command" string="false">["make", "-j2", "check"]</｜DSML｜parameter>
<｜DSML｜parameter name="timeout" string="false">2.5</｜DSML｜parameter>
</｜DSML｜invoke>
</｜DSML｜tool_calls>)"};
}

const std::string kJson =
    R"({"title": "A walk in the park", "year": 2019, "rating": 7.25, "tags": ["calm", "green \"leaf\""],
  "people": [{"name": "Zoë Müller", "role": "lead", "age": 41}, {"name": "李小龍", "role": "guest", "age": null}],
  "summary": "Two friends meet again after many years; they talk about the lives they did not live.\nIt rains.", "done": true})";

Reply json_of_schema() {
  const std::string schema =
      R"({"type": "object", "properties": {"title": {"type": "string"}, "year": {"type": "integer",
    "minimum": 1900, "maximum": 2100}, "rating": {"type": "number"}, "tags": {"type": "array", "items": {"type": "string"}},
    "people": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}, "role": {"enum":
    ["lead", "guest"]}, "age": {"type": ["integer", "null"]}}, "required": ["name", "role"]}}, "summary": {"type": "string"},
    "done": {"type": "boolean"}}, "required": ["title", "summary"]})";
  return {value_of(json_schema_grammar(value_of(parse_python_json(schema)))), kJson};
}

Reply any_json() { return {json_object_grammar(), kJson}; }

Reply bounded_strings() {
  const std::string schema =
      R"({"type": "object", "properties": {"id": {"type": "string", "pattern": "^[A-Z]{3}-\\d{4}$"},
    "day": {"type": "string", "format": "date"}, "text": {"type": "string", "minLength": 1, "maxLength": 200}},
    "required": ["id", "day", "text"]})";
  return {
      value_of(json_schema_grammar(value_of(parse_python_json(schema)))),
      R"({"id": "ABC-1234", "day": "2024-02-29", "text": "A bounded text of several words, so that lengths count."})"};
}

struct Times {
  std::vector<double> fill, accept;
  void sort() {
    std::ranges::sort(fill);
    std::ranges::sort(accept);
  }
};

double quantile(const std::vector<double>& sorted, double part) {
  return sorted[std::min(sorted.size() - 1,
                         static_cast<std::size_t>(part * static_cast<double>(sorted.size())))];
}

void follow(const Reply& reply, const std::vector<TokenId>& tokens,
            const std::shared_ptr<const MaskVocabulary>& masks, Times& times) {
  ReplyConstraint constraint({.body = ReplyRules::Body::kGrammar, .grammar = reply.grammar}, masks);
  TokenMask mask;
  for (const TokenId token : tokens) {
    double start = now_us();
    BALEEN_CHECK(constraint.fill(mask));
    times.fill.push_back(now_us() - start);
    BALEEN_CHECK((mask[token / 64] >> (token % 64) & 1) != 0);
    start = now_us();
    BALEEN_CHECK(constraint.accept(token));
    times.accept.push_back(now_us() - start);
  }
}

void masks(benchmark::State& state, Reply (*make_reply)()) {
  const auto vocabulary = make_mask_vocabulary(tokenizer(), tokenizer().vocab_size());
  const double start = now_us();
  const Reply reply = make_reply();
  state.counters["compile_us"] = now_us() - start;
  const std::vector<TokenId> tokens = value_of(tokenizer().encode(reply.text));
  Times first, later;
  follow(reply, tokens, vocabulary, first);
  for (auto _ : state) follow(reply, tokens, vocabulary, later);
  state.counters["tokens"] = static_cast<double>(tokens.size());
  first.sort();
  later.sort();
  state.counters["first_median_us"] = quantile(first.fill, 0.5);
  state.counters["first_max_us"] = first.fill.back();
  state.counters["median_us"] = quantile(later.fill, 0.5);
  state.counters["p99_us"] = quantile(later.fill, 0.99);
  state.counters["max_us"] = later.fill.back();
  state.counters["accept_p99_us"] = quantile(later.accept, 0.99);
}

BENCHMARK_CAPTURE(masks, tool_call, tool_call)->Iterations(200);
BENCHMARK_CAPTURE(masks, json_of_schema, json_of_schema)->Iterations(200);
BENCHMARK_CAPTURE(masks, any_json, any_json)->Iterations(200);
BENCHMARK_CAPTURE(masks, bounded_strings, bounded_strings)->Iterations(200);

void arrange_vocabulary(benchmark::State& state) {
  static_cast<void>(tokenizer());
  for (auto _ : state) benchmark::DoNotOptimize(make_mask_vocabulary(tokenizer(), tokenizer().vocab_size()));
}
BENCHMARK(arrange_vocabulary)->Unit(benchmark::kMillisecond)->Iterations(5);

}  // namespace
}  // namespace baleen
