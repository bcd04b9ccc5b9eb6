#include "bench/server/scenarios.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "base/error.h"
#include "bench/server/process_memory.h"

namespace baleen {
namespace {

constexpr double kOneAnswerSeconds = 120;  // for what is run alone

Clock::time_point after(double seconds) {
  return Clock::now() + std::chrono::microseconds(static_cast<std::int64_t>(seconds * 1e6));
}

double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto at =
      values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

/// Sums over the completions of one scenario.
struct Tally {
  std::int64_t requests = 0, errors = 0, tokens = 0;
  std::string first_error;
  std::vector<double> first_tokens, gaps;

  /// `cut` ones were ended by us.
  void add(const Completion& completion, bool cut) {
    ++requests;
    tokens += completion.num_tokens();
    if (completion.first_token_seconds()) first_tokens.push_back(*completion.first_token_seconds());
    gaps.insert(gaps.end(), completion.gaps().begin(), completion.gaps().end());
    if (cut || completion.good()) return;
    ++errors;
    if (first_error.empty()) first_error = completion.why_bad();
  }
};

std::string story_prompt(std::int64_t number) {
  return fmt::format("Tell me a story about the number {}.", number);
}

/// Keeps `num_streams` completions going for `seconds`. `each_turn` runs ten times a second or oftener; once
/// it says false all is over. `beside` is moved on with the rest.
template <class EachTurn>
Tally keep_streaming(const LoadTarget& target, int num_streams, double seconds, int max_tokens,
                     EachTurn each_turn, StreamClient* beside = nullptr) {
  Tally tally;
  std::int64_t number = 0;
  const Clock::time_point end = after(seconds);
  std::vector<std::unique_ptr<Completion>> running(static_cast<std::size_t>(num_streams));
  std::vector<StreamClient*> clients(running.size());
  if (beside != nullptr) clients.push_back(beside);
  while (Clock::now() < end && each_turn()) {
    const std::int64_t errors_before = tally.errors;
    for (std::size_t i = 0; i < running.size(); ++i) {
      if (running[i] && !running[i]->finished()) continue;
      if (running[i]) tally.add(*running[i], false);
      running[i] = std::make_unique<Completion>(target, story_prompt(number++), max_tokens);
      clients[i] = &running[i]->client();
    }
    drive(clients, std::min(end, after(0.1)));
    // A server that refuses at once must not be asked as fast as it refuses.
    if (tally.errors > errors_before) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  for (const auto& completion : running) {
    if (completion) tally.add(*completion, !completion->finished());
  }
  return tally;
}

std::string random_words(std::mt19937_64& random, std::int64_t count) {
  constexpr std::array<const char*, 16> kWords = {"the", "cat", "ran", "to",   "a",   "big", "tree", "and",
                                                  "saw", "one", "red", "bird", "who", "was", "very", "happy"};
  std::string text;
  for (std::int64_t i = 0; i < count; ++i)
    text += fmt::format("{}{}", i == 0 ? "" : " ", kWords[random() % kWords.size()]);
  return text;
}

}  // namespace

StreamsFigures run_streams(const LoadTarget& target, int num_streams, double seconds, int max_tokens) {
  StreamsFigures figures{.num_streams = num_streams, .seconds = seconds};
  const Clock::time_point begin = Clock::now();
  double next_sample = 0;
  const Tally tally = keep_streaming(target, num_streams, seconds, max_tokens, [&] {
    const double elapsed = seconds_between(begin, Clock::now());
    if (target.pid != 0 && elapsed >= next_sample) {
      figures.resident.push_back(resident_bytes(target.pid));
      next_sample = elapsed + std::min(1.0, seconds / 20);
    }
    return true;
  });
  if (!figures.resident.empty()) {
    figures.resident_warm = figures.resident[figures.resident.size() / 4];
    figures.resident_end = figures.resident.back();
  }
  figures.requests = tally.requests;
  figures.errors = tally.errors;
  figures.first_error = tally.first_error;
  figures.tokens = tally.tokens;
  figures.tokens_per_second = static_cast<double>(tally.tokens) / seconds_between(begin, Clock::now());
  figures.first_token_median = percentile(tally.first_tokens, 0.5);
  figures.first_token_p99 = percentile(tally.first_tokens, 0.99);
  figures.gap_median = percentile(tally.gaps, 0.5);
  figures.gap_p99 = percentile(tally.gaps, 0.99);
  return figures;
}

PrefixFigures run_prefix(const LoadTarget& target, int prompt_tokens, int repetitions) {
  constexpr int kAnswerTokens = 4;
  constexpr std::int64_t kSampleWords = 200;
  PrefixFigures figures;
  std::mt19937_64 random(std::random_device{}());  // a prompt of an earlier run may still be in the cache
  Tally tally;
  const auto ask = [&](const std::string& prompt) {
    Completion completion(target, prompt, kAnswerTokens);
    run_alone(completion, kOneAnswerSeconds);
    tally.add(completion, false);
    figures.prompt_tokens = completion.prompt_tokens();
    figures.cached_tokens = completion.cached_tokens();
    return completion.first_token_seconds().value_or(0);
  };
  ask(random_words(random, kSampleWords));
  // Without usage from the server a word counts as a token.
  const double tokens_per_word =
      figures.prompt_tokens > 0 ? static_cast<double>(figures.prompt_tokens) / kSampleWords : 1;
  const auto num_words = static_cast<std::int64_t>(prompt_tokens / tokens_per_word);
  std::vector<double> cold, cached, ratios;
  for (int i = 0; i < repetitions; ++i) {
    const std::string prompt = random_words(random, num_words);
    cold.push_back(ask(prompt));
    cached.push_back(ask(prompt));
    if (cached.back() > 0) ratios.push_back(cold.back() / cached.back());
  }
  figures.cold_median = percentile(cold, 0.5);
  figures.cached_median = percentile(cached, 0.5);
  figures.ratio = percentile(ratios, 0.5);
  figures.errors = tally.errors;
  figures.first_error = tally.first_error;
  return figures;
}

IdleFigures run_idle(const LoadTarget& target, int num_clients, const std::string& path) {
  constexpr int kAtOnce = 64;  // below the usual backlog of a listening socket
  constexpr double kSettleSeconds = 1;
  IdleFigures figures{.asked = num_clients};
  if (target.pid != 0) figures.resident_before = resident_bytes(target.pid);
  std::vector<std::unique_ptr<StreamClient>> clients;
  const auto num_open = [&] {
    return static_cast<int>(std::count_if(clients.begin(), clients.end(), [](const auto& client) {
      return client->status() == 200 && !client->finished();
    }));
  };
  while (static_cast<int>(clients.size()) < num_clients) {
    std::vector<StreamClient*> batch;
    while (batch.size() < kAtOnce && static_cast<int>(clients.size()) < num_clients) {
      clients.push_back(std::make_unique<StreamClient>(target.endpoint, http_request(path),
                                                       [](std::string_view, Clock::time_point) {}));
      batch.push_back(clients.back().get());
    }
    const auto answered = [](StreamClient* client) { return client->status() != 0 || client->finished(); };
    for (int turn = 0; turn < 100 && !batch.empty(); ++turn) {
      drive(batch, after(0.02));
      std::erase_if(batch, answered);
    }
  }
  std::this_thread::sleep_for(std::chrono::duration<double>(kSettleSeconds));
  figures.open = num_open();
  if (target.pid != 0 && figures.open > 0) {
    figures.resident_after = resident_bytes(target.pid);
    figures.bytes_each = static_cast<double>(figures.resident_after - figures.resident_before) / figures.open;
  }
  return figures;
}

StallFigures run_stall(const LoadTarget& target, const std::string& path, double seconds, int max_tokens) {
  constexpr int kReceiveBytes = 4096;
  StallFigures figures;
  const auto quiet = keep_streaming(target, 1, seconds / 4, max_tokens, [] { return true; });
  StreamClient stalled(
      target.endpoint, http_request(path), [](std::string_view, Clock::time_point) {}, kReceiveBytes);
  stalled.stop_reading();
  const auto beside = keep_streaming(
      target, 1, seconds, max_tokens, [&] { return !stalled.finished(); }, &stalled);
  figures.dropped = stalled.finished();
  if (figures.dropped) figures.dropped_after = seconds_between(stalled.started(), Clock::now());
  figures.gap_p99_before = percentile(quiet.gaps, 0.99);
  figures.gap_p99_beside = percentile(beside.gaps, 0.99);
  figures.errors = quiet.errors + beside.errors;
  return figures;
}

std::string first_model(Endpoint endpoint) {
  std::string model;
  StreamClient client(endpoint, http_request("/v1/models"), [&](std::string_view body, Clock::time_point) {
    const auto json = nlohmann::json::parse(body, nullptr, false);
    if (json.is_object() && json.contains("data") && json["data"].is_array() && !json["data"].empty()) {
      model = json["data"][0].value("id", "");
    }
  });
  const std::array<StreamClient*, 1> alone{&client};
  drive(alone, after(10));
  if (model.empty())
    fail("port {}: expected a list of models from GET /v1/models; is baleen serve there?", endpoint.port);
  return model;
}

}  // namespace baleen
