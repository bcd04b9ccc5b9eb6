// Figures of a serving simulation as text and as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "simulator/serving/serving_figures.h"

namespace baleen {
namespace {

using Json = nlohmann::ordered_json;

double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }
double ratio(std::int64_t part, std::int64_t whole) {
  return ratio(static_cast<double>(part), static_cast<double>(whole));
}
double percent(double share) { return 100 * share; }

/// Steps by sequences in them, in ranges that double: 1, 2 to 3, 4 to 7, ...
std::vector<std::int64_t> in_doubling_ranges(const std::vector<std::int64_t>& steps_by_batch) {
  std::vector<std::int64_t> ranges;
  for (std::size_t batch = 1; batch < steps_by_batch.size(); ++batch) {
    const auto range = static_cast<std::size_t>(std::bit_width(batch)) - 1;
    ranges.resize(std::max(ranges.size(), range + 1));
    ranges[range] += steps_by_batch[batch];
  }
  return ranges;
}

double mean_batch(const ServerRecord& server) {
  std::int64_t sequences = 0;
  for (std::size_t batch = 0; batch < server.steps_by_batch.size(); ++batch) {
    sequences += static_cast<std::int64_t>(batch) * server.steps_by_batch[batch];
  }
  return ratio(sequences, server.steps);
}

std::string line_of(const char* name, const Distribution& times) {
  constexpr double kMs = 1e3;
  return fmt::format("  {:<24}{:>12.2f}{:>12.2f}{:>12.2f}{:>12.2f}\n", name, kMs * times.mean,
                     kMs * times.p50, kMs * times.p90, kMs * times.p99);
}

std::string limits_in_words(const ServiceLimits& limits) {
  std::string words;
  const auto add = [&](const char* what, const std::optional<double>& seconds) {
    if (!seconds) return;
    words += fmt::format("{}{} {:g} ms", words.empty() ? "" : " and ", what, 1e3 * *seconds);
  };
  add("first token", limits.first_token_seconds);
  add("each output token", limits.per_output_token_seconds);
  return words;
}

std::string server_text(const ServerRecord& server, const char* name, double seconds) {
  constexpr int kBarWidth = 40;
  std::string text =
      fmt::format("\n{}: {} steps of {:.1f} sequences and {:.1f} tokens in the mean, busy {:.1f}%\n", name,
                  server.steps, mean_batch(server), ratio(server.step_tokens, server.steps),
                  percent(ratio(server.busy_seconds, seconds)));
  const auto pool = [&](const char* what, const Occupancy& use) {
    if (use.seconds == 0) return;  // too short a run to have looked
    text += fmt::format("  {:<14}{:5.1f}% in use, {:.1f}% at most; {:.1f}% cached\n", what,
                        percent(use.mean_in_use()), percent(use.most_in_use), percent(use.mean_cached()));
  };
  pool("pages", server.pages);
  pool("window pages", server.window_pages);
  const auto ranges = in_doubling_ranges(server.steps_by_batch);
  for (std::size_t range = 0; range < ranges.size(); ++range) {
    const std::int64_t first = std::int64_t{1} << range, last = 2 * first - 1;
    const double share = ratio(ranges[range], server.steps);
    const std::string batch = first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
    text += fmt::format("  batch {:<12}{:5.1f}% of steps {}\n", batch, percent(share),
                        std::string(static_cast<std::size_t>(kBarWidth * share + 0.5), '#'));
  }
  return text;
}

Json to_json(const Distribution& times) {
  return {{"mean", times.mean}, {"p50", times.p50}, {"p90", times.p90}, {"p99", times.p99}};
}

Json to_json(const Occupancy& use) {
  return {{"mean_in_use", use.mean_in_use()},
          {"most_in_use", use.most_in_use},
          {"mean_cached", use.mean_cached()}};
}

Json to_json(const ServerRecord& server, double seconds) {
  return {{"steps", server.steps},
          {"mean_step_sequences", mean_batch(server)},
          {"mean_step_tokens", ratio(server.step_tokens, server.steps)},
          {"busy", ratio(server.busy_seconds, seconds)},
          {"preemptions", server.preemptions},
          {"pages", to_json(server.pages)},
          {"window_pages", to_json(server.window_pages)},
          {"steps_by_sequences", server.steps_by_batch}};
}

}  // namespace

const char* server_name(std::size_t i, std::size_t count) {
  if (count == 1) return "server";
  return i == 0 ? "prefill" : "decode";
}

std::string to_text(const ServingFigures& figures) {
  std::string text = fmt::format(
      "{} requests in {:.2f} s: {} finished, {} turned away, {} abandoned, {} refused\n", figures.requests,
      figures.seconds, figures.finished, figures.turned_away, figures.abandoned, figures.refused);
  if (!figures.first_refusal.empty()) text += fmt::format("  first refusal: {}\n", figures.first_refusal);
  text +=
      fmt::format("throughput    {:.2f} requests/s, {:.1f} output tokens/s, {:.1f} tokens/s with prompts\n",
                  figures.per_second(figures.finished), figures.per_second(figures.output_tokens),
                  figures.per_second(figures.output_tokens + figures.prompt_tokens));
  const std::string limits = limits_in_words(figures.limits);
  if (!limits.empty()) {
    text += fmt::format("goodput       {:.2f} requests/s: {:.1f}% keep {}\n",
                        figures.per_second(figures.within_limits),
                        percent(ratio(figures.within_limits, figures.requests)), limits);
  }
  text += fmt::format("prompts       {} tokens, {:.1f}% of them found in the cache\n", figures.prompt_tokens,
                      percent(ratio(figures.cached_tokens, figures.prompt_tokens)));
  if (figures.drafted_tokens > 0) {
    text += fmt::format("drafts        {} tokens, {:.1f}% of them right\n", figures.drafted_tokens,
                        percent(ratio(figures.accepted_tokens, figures.drafted_tokens)));
  }
  text += fmt::format("preemptions   {}\n", figures.preemptions);
  text += fmt::format("\n  {:<24}{:>12}{:>12}{:>12}{:>12}\n", "milliseconds", "mean", "p50", "p90", "p99");
  text += line_of("queue", figures.queue);
  text += line_of("time to first token", figures.first_token);
  text += line_of("time per output token", figures.per_output_token);
  text += line_of("time between tokens", figures.between_tokens);
  text += line_of("end to end", figures.end_to_end);
  for (std::size_t i = 0; i < figures.servers.size(); ++i) {
    text += server_text(figures.servers[i], server_name(i, figures.servers.size()), figures.seconds);
  }
  return text;
}

Json to_json(const ServingFigures& figures) {
  Json json{{"requests", figures.requests},
            {"finished", figures.finished},
            {"turned_away", figures.turned_away},
            {"abandoned", figures.abandoned},
            {"refused", figures.refused},
            {"seconds", figures.seconds},
            {"requests_per_second", figures.per_second(figures.finished)},
            {"output_tokens_per_second", figures.per_second(figures.output_tokens)},
            {"total_tokens_per_second", figures.per_second(figures.output_tokens + figures.prompt_tokens)},
            {"goodput_requests_per_second", figures.per_second(figures.within_limits)},
            {"within_limits", ratio(figures.within_limits, figures.requests)},
            {"queue", to_json(figures.queue)},
            {"time_to_first_token", to_json(figures.first_token)},
            {"time_per_output_token", to_json(figures.per_output_token)},
            {"time_between_tokens", to_json(figures.between_tokens)},
            {"end_to_end", to_json(figures.end_to_end)},
            {"prompt_tokens", figures.prompt_tokens},
            {"output_tokens", figures.output_tokens},
            {"cache_hit_rate", ratio(figures.cached_tokens, figures.prompt_tokens)},
            {"drafted_tokens", figures.drafted_tokens},
            {"accepted_tokens", figures.accepted_tokens},
            {"preemptions", figures.preemptions}};
  if (!figures.first_refusal.empty()) json["first_refusal"] = figures.first_refusal;
  for (std::size_t i = 0; i < figures.servers.size(); ++i) {
    json[server_name(i, figures.servers.size())] = to_json(figures.servers[i], figures.seconds);
  }
  return json;
}

}  // namespace baleen
