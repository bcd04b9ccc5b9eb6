#include "benchmark/serving.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "benchmark/drawn_acceptance.h"
#include "scheduler/scheduler.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/tokenizer.h"

namespace baleen {
namespace {

/// The least that a scheduler takes: 256 bytes. Other ids have no text, and no request sets rules for it.
Tokenizer tokenizer_of_bytes() {
  nlohmann::ordered_json vocabulary;
  for (int byte = 0; byte < 256; ++byte)
    vocabulary[byte_level_character(static_cast<std::uint8_t>(byte))] = byte;
  const nlohmann::ordered_json file{
      {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", nlohmann::ordered_json::array()}}},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}},
      {"decoder", {{"type", "ByteLevel"}}}};
  return Tokenizer::parse(file.dump(), "the benchmark's vocabulary");
}

/// All clients: they send requests until there are none left, and keep how each went.
class Clients {
 public:
  Clients(Scheduler& scheduler, const ClosedLoop& load, std::int64_t vocab_size)
      : scheduler_(scheduler), load_(load), vocab_size_(vocab_size) {}

  void send_next() {
    if (sent_ == load_.requests) return;
    Request request;
    std::mt19937 random(static_cast<std::uint32_t>(++sent_));
    std::uniform_int_distribution<TokenId> token(0, static_cast<TokenId>(vocab_size_ - 1));
    for (std::int64_t i = 0; i < load_.prompt_tokens; ++i) request.prompt.push_back(token(random));
    request.max_tokens = load_.reply_tokens;
    request.sampling.seed = static_cast<std::uint64_t>(sent_);
    if (!scheduler_.submit(std::move(request), std::make_shared<Sink>(*this)))
      fail("bench: the scheduler's queue is full with {} clients", load_.clients);
  }

  [[nodiscard]] const std::vector<ReplySummary>& replies() const { return replies_; }

 private:
  class Sink : public ReplySink {
   public:
    explicit Sink(Clients& clients) : clients_(clients) {}
    void piece(const ReplyPiece& /*piece*/) override {}
    void finished(const ReplySummary& summary) override {
      clients_.replies_.push_back(summary);
      clients_.send_next();
    }

   private:
    Clients& clients_;
  };

  Scheduler& scheduler_;
  const ClosedLoop& load_;
  std::int64_t vocab_size_;
  std::int64_t sent_ = 0;
  std::vector<ReplySummary> replies_;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace

MeasuredServing measure_serving(ModelEngine& engine, const ClosedLoop& load) {
  const Tokenizer bytes = tokenizer_of_bytes();
  std::optional<AcceptingEngine> accepting;
  if (load.drafts > 0) accepting.emplace(engine, load.acceptance);
  StepEngine& served = accepting ? static_cast<StepEngine&>(*accepting) : engine;
  SchedulerOptions options = load.scheduler;
  options.max_queue = load.clients;
  options.speculate = load.drafts;
  Scheduler scheduler(served, bytes, options, monotonic_seconds);
  Clients clients(scheduler, load, engine.config().vocab_size);
  const double begin = monotonic_seconds();
  for (std::int64_t i = 0; i < load.clients; ++i) clients.send_next();
  while (scheduler.turn() || !scheduler.idle()) {
  }
  const double seconds = monotonic_seconds() - begin;
  std::vector<double> first, between;
  for (const ReplySummary& reply : clients.replies()) {
    if (reply.end != ReplyEnd::kLength || reply.reply_tokens != load.reply_tokens)
      fail("bench: a request ended after {} of {} tokens: {}", reply.reply_tokens, load.reply_tokens,
           reply.error);
    first.push_back(reply.first_token_seconds);
    between.push_back((reply.total_seconds - reply.first_token_seconds) /
                      static_cast<double>(std::max<std::int64_t>(reply.reply_tokens - 1, 1)));
  }
  if (std::ssize(first) != load.requests)
    fail("bench: {} of {} requests ended, and the scheduler has nothing to do", first.size(), load.requests);
  const SchedulerStats stats = scheduler.stats();
  const auto requests = static_cast<double>(load.requests);
  const double total = requests * static_cast<double>(load.prompt_tokens + load.reply_tokens) / seconds;
  return {
      .load = load,
      .seconds = seconds,
      .total_tokens_per_second = total,
      .total_tokens_per_second_of_a_rank = total / static_cast<double>(engine.options().parallel.num_devices),
      .reply_tokens_per_second = requests * static_cast<double>(load.reply_tokens) / seconds,
      .median_first_token_seconds = median(first),
      .median_seconds_between_tokens = median(between),
      .steps = stats.steps,
      .preemptions = stats.preemptions,
      .drafted = stats.drafted_tokens,
      .accepted = stats.accepted_tokens,
      .drafts_by_depth = stats.drafts_by_depth};
}

std::string to_text(const MeasuredServing& figures) {
  const ClosedLoop& load = figures.load;
  std::string text = fmt::format(
      "{} clients, {} requests of {} + {} tokens in {:.1f} s: {:.0f} tokens/s in all, {:.0f} of a rank, "
      "{:.0f} "
      "of replies\nfirst token after {:.0f} ms, then {:.2f} ms a token (medians); {} steps, {} preemptions\n",
      load.clients, load.requests, load.prompt_tokens, load.reply_tokens, figures.seconds,
      figures.total_tokens_per_second, figures.total_tokens_per_second_of_a_rank,
      figures.reply_tokens_per_second, 1e3 * figures.median_first_token_seconds,
      1e3 * figures.median_seconds_between_tokens, figures.steps, figures.preemptions);
  if (!figures.drafts_by_depth.empty()) text += acceptance_text(figures.drafts_by_depth) + "\n";
  return text;
}

nlohmann::ordered_json to_json(const MeasuredServing& figures) {
  return {{"clients", figures.load.clients},
          {"requests", figures.load.requests},
          {"prompt_tokens", figures.load.prompt_tokens},
          {"reply_tokens", figures.load.reply_tokens},
          {"seconds", figures.seconds},
          {"total_tokens_per_second", figures.total_tokens_per_second},
          {"total_tokens_per_second_of_a_rank", figures.total_tokens_per_second_of_a_rank},
          {"reply_tokens_per_second", figures.reply_tokens_per_second},
          {"median_first_token_seconds", figures.median_first_token_seconds},
          {"median_seconds_between_tokens", figures.median_seconds_between_tokens},
          {"steps", figures.steps},
          {"preemptions", figures.preemptions},
          {"drafted_tokens", figures.drafted},
          {"accepted_tokens", figures.accepted},
          {"drafts_by_depth", acceptance_json(figures.drafts_by_depth)}};
}

}  // namespace baleen
