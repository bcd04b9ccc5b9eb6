// Load on a running `baleen serve` of this machine: many streams, cached prompts, idle clients, a client that
// stalls.
//
//   baleen serve --model models/stories --port 8080 &
//   load_bench --port 8080 --pid $!
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/options.h"
#include "app/process.h"
#include "base/error.h"
#include "base/standard_streams.h"
#include "bench/server/fake_model_server.h"
#include "bench/server/scenarios.h"

namespace baleen {
namespace {

using Json = nlohmann::ordered_json;

struct LoadOptions {
  std::string host = "127.0.0.1", model, endpoint = "chat";
  std::vector<std::string> scenarios;  ///< none: all
  std::string idle_path = "/stats?stream=1&interval=3600", stall_path = "/stats?stream=1&interval=0.01";
  std::uint16_t port = 0;
  int pid = 0, streams = 64, max_tokens = 128, prompt_tokens = 4000, repetitions = 5, idle = 2000;
  double seconds = 60, single_seconds = 10;
  bool json = false, fake = false;
};

const std::vector<std::string> kScenarios = {"streams", "prefix", "idle", "stall"};
constexpr RealRange kSecondsRange{.min = 0.1, .max = 3600};

void add_options(Options& program, LoadOptions& options) {
  program.text("--host", options.host, "Loopback address of the server");
  program.integer_without_default("--port", options.port, {.min = 1, .max = 65535}, "Port of the server");
  program.integer_without_default("--pid", options.pid, {.min = 1, .max = 1 << 30},
                                  "Process of the server: its resident memory is watched");
  program.text("--model", options.model, "Model to ask for; the first of /v1/models by default");
  program.choice("--endpoint", options.endpoint, {"chat", "completions"}, "Which API");
  program.texts("--scenario", options.scenarios,
                "streams, prefix, idle or stall; may be given again; all by default");
  program.integer("--streams", options.streams, {.min = 1, .max = 1024}, "Concurrent streams");
  program.real("--seconds", options.seconds, kSecondsRange, "Of the concurrent streams");
  program.real("--single-seconds", options.single_seconds, kSecondsRange,
               "Of the one stream before, and of the stalled client");
  program.integer("--max-tokens", options.max_tokens, {.min = 1, .max = 100'000}, "Of one completion");
  program.integer("--prompt-tokens", options.prompt_tokens, {.min = 1, .max = 1'000'000},
                  "Of a prompt of the prefix scenario");
  program.integer("--repetitions", options.repetitions, {.min = 1, .max = 1000},
                  "Fresh prompts of the prefix scenario");
  program.integer("--idle", options.idle, {.min = 1, .max = 10'000}, "Idle clients");
  program.text("--idle-path", options.idle_path, "A stream on which nothing is sent");
  program.text("--stall-path", options.stall_path, "A busy stream for the client that does not read");
  program.flag("--json", options.json, "Figures as JSON");
  program.flag("--fake", options.fake,
               "Run against a built-in server without a model: what the generator itself can do");
}

double ms(double seconds) { return seconds * 1e3; }
double mib(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

/// Prints tables as they become known, or keeps the figures for one JSON object.
class Report {
 public:
  explicit Report(bool as_json) : as_json_(as_json) {}

  void streams(const StreamsFigures& f, double ratio_to_one) {
    const double growth = f.resident_warm > 0
                              ? static_cast<double>(f.resident_end) / static_cast<double>(f.resident_warm) - 1
                              : 0;
    add_errors(f.errors, f.first_error);
    json_[f.num_streams == 1 ? "one_stream" : "streams"] = {
        {"streams", f.num_streams},
        {"seconds", f.seconds},
        {"requests", f.requests},
        {"errors", f.errors},
        {"tokens", f.tokens},
        {"tokens_per_second", f.tokens_per_second},
        {"ratio_to_one_stream", ratio_to_one},
        {"first_token_median_ms", ms(f.first_token_median)},
        {"first_token_p99_ms", ms(f.first_token_p99)},
        {"gap_median_ms", ms(f.gap_median)},
        {"gap_p99_ms", ms(f.gap_p99)},
        {"resident_warm_bytes", f.resident_warm},
        {"resident_end_bytes", f.resident_end},
        {"resident_growth", growth},
        {"resident_bytes", f.resident}};
    line("{} stream{} for {:.0f} s", f.num_streams, f.num_streams == 1 ? "" : "s", f.seconds);
    line("  requests {}, errors {}, tokens {}", f.requests, f.errors, f.tokens);
    line("  throughput              {:10.1f} tokens/s   {:.2f} times one stream", f.tokens_per_second,
         ratio_to_one);
    line("  time to first token     {:10.1f} ms median {:10.1f} ms p99", ms(f.first_token_median),
         ms(f.first_token_p99));
    line("  time between tokens     {:10.1f} ms median {:10.1f} ms p99", ms(f.gap_median), ms(f.gap_p99));
    if (f.resident_warm > 0) {
      line("  resident memory         {:10.1f} MiB warm  {:10.1f} MiB at the end, {:+.2f}%",
           mib(f.resident_warm), mib(f.resident_end), growth * 100);
    }
  }

  void prefix(const PrefixFigures& f) {
    add_errors(f.errors, f.first_error);
    json_["prefix"] = {{"prompt_tokens", f.prompt_tokens},
                       {"cached_tokens", f.cached_tokens},
                       {"cold_median_ms", ms(f.cold_median)},
                       {"cached_median_ms", ms(f.cached_median)},
                       {"ratio", f.ratio},
                       {"errors", f.errors}};
    line("a prompt of {} tokens, asked twice", f.prompt_tokens);
    line("  time to first token     {:10.1f} ms cold   {:10.1f} ms cached ({} tokens): {:.1f} times lower",
         ms(f.cold_median), ms(f.cached_median), f.cached_tokens, f.ratio);
  }

  void idle(const IdleFigures& f) {
    add_errors(f.asked - f.open, "idle streams that did not open");
    json_["idle"] = {{"asked", f.asked},
                     {"open", f.open},
                     {"resident_before_bytes", f.resident_before},
                     {"resident_after_bytes", f.resident_after},
                     {"bytes_each", f.bytes_each}};
    line("{} idle streams, {} open", f.asked, f.open);
    if (f.resident_before > 0) {
      line("  resident memory         {:10.1f} MiB before{:10.1f} MiB after: {:.1f} KiB each",
           mib(f.resident_before), mib(f.resident_after), f.bytes_each / 1024);
    }
  }

  void stall(const StallFigures& f) {
    add_errors(f.errors + (f.dropped ? 0 : 1), "the stalled client was not dropped, or its neighbour failed");
    json_["stall"] = {{"dropped", f.dropped},
                      {"dropped_after_seconds", f.dropped_after},
                      {"gap_p99_before_ms", ms(f.gap_p99_before)},
                      {"gap_p99_beside_ms", ms(f.gap_p99_beside)},
                      {"errors", f.errors}};
    line("a client that does not read");
    line("  {}", f.dropped ? fmt::format("dropped after {:.2f} s", f.dropped_after)
                           : "not dropped in the time given");
    line("  its neighbour's tokens  {:10.1f} ms p99 before {:6.1f} ms p99 beside it", ms(f.gap_p99_before),
         ms(f.gap_p99_beside));
  }

  /// Returns the exit status.
  int finish() {
    json_["errors"] = errors_;
    if (as_json_) fmt::print("{}\n", json_.dump(2));
    if (errors_ > 0) fmt::print(stderr, "{} errors; the first: {}\n", errors_, first_error_);
    return errors_ > 0 ? 1 : 0;
  }

 private:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    if (as_json_) return;
    fmt::print("{}\n", fmt::format(format, std::forward<Args>(args)...));
    std::fflush(stdout);
  }
  void add_errors(std::int64_t count, const std::string& what) {
    if (errors_ == 0 && count > 0) first_error_ = what;
    errors_ += count;
  }

  bool as_json_;
  Json json_;
  std::int64_t errors_ = 0;
  std::string first_error_;
};

int run(LoadOptions options) {
  for (const std::string& scenario : options.scenarios) {
    if (std::ranges::find(kScenarios, scenario) == kScenarios.end())
      usage_error("--scenario: expected one of {}; found \"{}\"", fmt::join(kScenarios, ", "), scenario);
  }
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
  std::optional<FakeModelServer> fake;
  if (options.fake) {
    constexpr double kFakeTokenSeconds = 0.01;
    fake.emplace(kFakeTokenSeconds);
    options.port = fake->port();
    options.pid = getpid();
  }
  if (options.port == 0) fail("--port: the port of a running `baleen serve` is wanted, or --fake");
  LoadTarget target{.endpoint = Endpoint::loopback(options.host, options.port),
                    .model = options.model,
                    .chat = options.endpoint == "chat",
                    .pid = options.pid};
  if (target.model.empty()) target.model = first_model(target.endpoint);

  const auto wants = [&](const char* name) {
    return options.scenarios.empty() || std::ranges::find(options.scenarios, name) != options.scenarios.end();
  };
  Report report(options.json);
  if (wants("streams")) {
    const StreamsFigures one = run_streams(target, 1, options.single_seconds, options.max_tokens);
    report.streams(one, 1);
    const StreamsFigures many = run_streams(target, options.streams, options.seconds, options.max_tokens);
    report.streams(many, one.tokens > 0 ? many.tokens_per_second / one.tokens_per_second : 0);
  }
  if (wants("prefix")) report.prefix(run_prefix(target, options.prompt_tokens, options.repetitions));
  if (wants("idle")) report.idle(run_idle(target, options.idle, options.idle_path));
  if (wants("stall"))
    report.stall(run_stall(target, options.stall_path, options.single_seconds, options.max_tokens));
  return report.finish();
}

}  // namespace
}  // namespace baleen

int main(int argc, char** argv) {
  baleen::prepare_process();
  try {
    int status = 0;
    baleen::LoadOptions options;
    baleen::Options program("load_bench", "Load on a running `baleen serve` of this machine");
    baleen::add_options(program, options);
    program.action([&] { status = baleen::run(options); });
    program.parse(argc, argv);
    baleen::flush_checked(stdout);
    return status;
  } catch (const baleen::UsageError& error) {
    fmt::print(stderr, "load_bench: {}\n", error.what());
    return 2;
  } catch (...) {
    return baleen::exit_status_of_exception();
  }
}
