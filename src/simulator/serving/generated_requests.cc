#include "simulator/serving/generated_requests.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace baleen {
namespace {

/// Above the numbers of sessions.
constexpr std::uint64_t kFirstFamily = std::uint64_t{1} << 62;
/// Longer ones than any context are a slip of the hand.
constexpr double kMaxTokens = 1e9;

void check_lengths(const LengthDistribution& lengths, const char* what) {
  if (!(lengths.mean >= 1 && lengths.mean <= kMaxTokens)) {
    fail("{}: a mean of {} tokens; give 1 to {:.0e}", what, lengths.mean, kMaxTokens);
  }
  if (!(lengths.variation >= 0 && lengths.variation <= 100)) {
    fail("{}: a coefficient of variation of {}; give 0 (all equal) to 100", what, lengths.variation);
  }
}

class GeneratedRequests final : public RequestSource {
 public:
  explicit GeneratedRequests(GeneratedRequestsOptions options)
      : options_(std::move(options)),
        arrivals_(options_.seed, DrawFor::kArrival),
        prompts_(options_.seed, DrawFor::kPromptTokens),
        outputs_(options_.seed, DrawFor::kOutputTokens),
        families_(options_.seed, DrawFor::kFamily),
        thinking_(options_.seed, DrawFor::kThinking) {}

  std::optional<ServingRequest> next() override {
    if (options_.rate == 0) {
      if (num_sessions_ == options_.clients) return std::nullopt;
    } else {
      const auto session = static_cast<std::uint64_t>(num_sessions_);
      const double gap = options_.burstiness == 1 ? arrivals_.exponential(session)
                                                  : arrivals_.gamma(session, options_.burstiness);
      now_ += gap / options_.rate;
    }
    return first_turn(now_);
  }

  std::optional<ServingRequest> after(const ServingRequest& ended, double now) override {
    const double thinking =
        options_.think_seconds == 0
            ? 0
            : options_.think_seconds * thinking_.exponential(static_cast<std::uint64_t>(ended.number));
    const double then = now + thinking;
    if (ended.turns_left > 0) {
      if (auto turn = next_turn(ended, then)) return turn;
    }
    return options_.rate == 0 ? first_turn(then) : std::nullopt;
  }

 private:
  std::optional<ServingRequest> first_turn(double arrival) {
    if (num_created_ == options_.num_requests) return std::nullopt;
    const auto session = static_cast<std::uint64_t>(num_sessions_++);
    const RequestLengths lengths = draw_lengths();
    const double family = families_.uniform(session) * static_cast<double>(options_.families);
    return ServingRequest{.number = num_created_++,
                          .arrival = arrival,
                          .prompt_tokens = options_.family_tokens + lengths.prompt_tokens,
                          .output_tokens = lengths.output_tokens,
                          .stream = {.family = kFirstFamily + static_cast<std::uint64_t>(family),
                                     .family_tokens = options_.family_tokens,
                                     .own = session},
                          .turns_left = options_.turns - 1};
  }

  std::optional<ServingRequest> next_turn(const ServingRequest& before, double arrival) {
    if (num_created_ == options_.num_requests) return std::nullopt;
    const RequestLengths lengths = draw_lengths();
    ServingRequest turn = before;
    turn.prompt_tokens += before.output_tokens + lengths.prompt_tokens;
    if (turn.prompt_tokens > options_.most_prompt_tokens) return std::nullopt;
    turn.number = num_created_++;
    turn.arrival = arrival;
    turn.output_tokens = lengths.output_tokens;
    --turn.turns_left;
    return turn;
  }

  /// Of the request that would be created next.
  [[nodiscard]] RequestLengths draw_lengths() const {
    if (!options_.lengths.empty()) {
      return options_.lengths[static_cast<std::size_t>(num_created_) % options_.lengths.size()];
    }
    return {options_.prompt.draw(prompts_, num_created_), options_.output.draw(outputs_, num_created_)};
  }

  GeneratedRequestsOptions options_;
  Draws arrivals_, prompts_, outputs_, families_, thinking_;
  std::int64_t num_created_ = 0, num_sessions_ = 0;
  double now_ = 0;
};

}  // namespace

std::int64_t LengthDistribution::draw(const Draws& draws, std::int64_t number) const {
  if (variation == 0) return std::llround(mean);
  const double variance_of_log = std::log1p(variation * variation);
  const double of_log = std::log(mean) - variance_of_log / 2;
  const double drawn =
      std::exp(of_log + std::sqrt(variance_of_log) * draws.normal(static_cast<std::uint64_t>(number)));
  return std::llround(std::clamp(drawn, 1.0, kMaxTokens));
}

void check(const GeneratedRequestsOptions& options) {
  if (options.num_requests < 1) fail("requests: {} wanted; simulate at least one", options.num_requests);
  if (!(options.rate >= 0 && std::isfinite(options.rate))) {
    fail("rate: {} requests a second; give a positive number", options.rate);
  }
  if (!(options.burstiness > 0 && std::isfinite(options.burstiness))) {
    fail("burstiness: {}; give a positive number, 1 for a Poisson process", options.burstiness);
  }
  if (options.rate == 0 && options.clients < 1) {
    fail("clients: {} of them; a closed loop wants at least one", options.clients);
  }
  if (!(options.think_seconds >= 0 && std::isfinite(options.think_seconds))) {
    fail("thinking: {} seconds; give 0 or more", options.think_seconds);
  }
  if (options.families < 1 || options.family_tokens < 0 || options.turns < 1) {
    fail("{} families with {} shared tokens, {} turns: at least 1, 0 and 1 are possible", options.families,
         options.family_tokens, options.turns);
  }
  check_lengths(options.prompt, "prompt tokens");
  check_lengths(options.output, "output tokens");
}

std::unique_ptr<RequestSource> make_generated_requests(GeneratedRequestsOptions options) {
  check(options);
  return std::make_unique<GeneratedRequests>(std::move(options));
}

}  // namespace baleen
