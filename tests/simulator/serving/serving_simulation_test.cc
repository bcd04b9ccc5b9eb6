// Known answers of whole simulations.
#include "simulator/serving/serving_simulation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "engine/engine_limits.h"
#include "model/presets.h"
#include "simulator/serving/generated_requests.h"
#include "simulator/serving/serving_figures.h"
#include "tests/simulator/serving/small_server.h"

namespace baleen {
namespace {

/// Hands out these, and nothing after.
class ListedRequests final : public RequestSource {
 public:
  explicit ListedRequests(std::vector<ServingRequest> requests) : requests_(std::move(requests)) {}
  std::optional<ServingRequest> next() override {
    return at_ == requests_.size() ? std::nullopt : std::optional(requests_[at_++]);
  }
  std::optional<ServingRequest> after(const ServingRequest&, double) override { return std::nullopt; }

 private:
  std::vector<ServingRequest> requests_;
  std::size_t at_ = 0;
};

ServingRequest request_at(std::int64_t number, double arrival, std::int64_t prompt, std::int64_t output) {
  return {.number = number,
          .arrival = arrival,
          .prompt_tokens = prompt,
          .output_tokens = output,
          .stream = {.own = static_cast<std::uint64_t>(number)}};
}

ServingResult simulate(const ServerSetup& setup, std::vector<ServingRequest> requests) {
  ListedRequests workload(std::move(requests));
  return simulate_serving({.server = setup}, workload);
}

ServingResult simulate(const ServerSetup& setup, const GeneratedRequestsOptions& workload) {
  return simulate_serving({.server = setup}, *make_generated_requests(workload));
}

TEST(ZeroLoad, TimeToFirstTokenIsThePrefill) {
  const SmallServer server{.max_batch_tokens = 512};
  AffineStepTimes times;
  // Two whole chunks and what is left of 1200 tokens.
  double now = 3;
  for (const QueryPart& part : {QueryPart{0, 512, 0}, {512, 512, 0}, {1024, 176, 1}}) {
    now += times.step_seconds(std::span(&part, 1));
  }
  const ServingResult result =
      simulate(server.setup(), {request_at(0, 3, 1200, 5), request_at(1, 100, 1, 1)});
  EXPECT_EQ(result.requests[0].admitted, 3);
  EXPECT_EQ(result.requests[0].first_token, now);
  for (std::int64_t position = 1200; position < 1204; ++position) {
    const QueryPart part{position, 1, 1};
    now += times.step_seconds(std::span(&part, 1));
  }
  EXPECT_EQ(result.requests[0].finished, now);
  const QueryPart alone{0, 1, 1};
  EXPECT_EQ(result.requests[1].first_token, 100 + times.step_seconds(std::span(&alone, 1)));
}

TEST(ClosedLoop, OneClientGetsTheSingleStream) {
  const ServingResult one = simulate(SmallServer().setup(), {request_at(0, 0, 300, 50)});
  const double seconds = one.requests[0].finished;
  GeneratedRequestsOptions loop{
      .num_requests = 20, .clients = 1, .prompt = {.mean = 300}, .output = {.mean = 50}};
  ServingResult result = simulate(SmallServer().setup(), loop);
  for (std::size_t i = 0; i < result.requests.size(); ++i) {
    const RequestRecord& request = result.requests[i];
    EXPECT_NEAR(request.finished - request.arrival, seconds, 1e-9);
    EXPECT_EQ(request.arrival, i == 0 ? 0 : result.requests[i - 1].finished);
  }
  const ServingFigures figures = figures_of(std::move(result), {});
  EXPECT_NEAR(figures.per_second(figures.output_tokens), 50 / seconds, 1e-6);
  EXPECT_NEAR(figures.servers[0].busy_seconds, figures.seconds, 1e-9);
}

TEST(Saturation, ThroughputIsTheBatchs) {
  const SmallServer server{.num_pages = 400, .num_window_pages = 400, .max_sequences = 8};
  // One prompt token each: nothing but decoding, eight at a time, all at the same positions.
  GeneratedRequestsOptions crowd{
      .num_requests = 800, .rate = 1e6, .prompt = {.mean = 1}, .output = {.mean = 100}};
  ServingResult result = simulate(server.setup(), crowd);
  AffineStepTimes times;
  double round = 0;
  for (std::int64_t position = 0; position < 100; ++position) {
    const std::vector<QueryPart> parts(8, QueryPart{position, 1, 1});
    round += times.step_seconds(parts);
  }
  const ServingFigures figures = figures_of(std::move(result), {});
  EXPECT_EQ(figures.finished, 800);
  // The first step may begin before all of the first eight have come.
  EXPECT_NEAR(figures.seconds, 100 * round, 0.01 * round + 100 * 3e-3);
  EXPECT_GT(figures.queue.p50, 40 * round);
}

TEST(Saturation, NeverFasterThanTheBatchAllows) {
  const SmallServer server{.max_sequences = 16};
  GeneratedRequestsOptions crowd{.num_requests = 500,
                                 .rate = 1000,
                                 .prompt = {.mean = 200, .variation = 0.5},
                                 .output = {.mean = 60, .variation = 0.5}};
  const ServingFigures figures = figures_of(simulate(server.setup(), crowd), {});
  // The least that a token costs: its own, and its share of the fullest step.
  const double least = 1e-5 + 3e-6 + 2e-3 / 16;
  EXPECT_LE(figures.per_second(figures.output_tokens), 1 / least);
}

TEST(Conservation, EveryRequestEndsOnceAndAllPagesComeBack) {
  // simulate_serving itself stops the program when a page is missing at the end.
  const SmallServer crowded{.num_pages = 20, .num_window_pages = 20, .max_sequences = 6, .max_queue = 5};
  GeneratedRequestsOptions options{.num_requests = 400,
                                   .rate = 200,
                                   .prompt = {.mean = 500, .variation = 1},
                                   .output = {.mean = 300, .variation = 1}};
  const ServingFigures figures = figures_of(simulate(crowded.setup(), options), {});
  EXPECT_EQ(figures.requests, 400);
  EXPECT_EQ(figures.finished + figures.turned_away + figures.abandoned + figures.refused, 400);
  EXPECT_GT(figures.finished, 0);
  EXPECT_GT(figures.turned_away, 0);
  EXPECT_GT(figures.preemptions, 0);
}

TEST(Runs, RepeatExactlyAndFollowTheSeed) {
  GeneratedRequestsOptions options{.num_requests = 200,
                                   .seed = 7,
                                   .rate = 50,
                                   .prompt = {.mean = 300, .variation = 1},
                                   .output = {.mean = 80, .variation = 1}};
  const ServingResult once = simulate(SmallServer().setup(), options);
  EXPECT_TRUE(once.requests == simulate(SmallServer().setup(), options).requests);
  options.seed = 8;
  EXPECT_FALSE(once.requests == simulate(SmallServer().setup(), options).requests);
}

TEST(PrefixCache, FamiliesAndTurnsAreFound) {
  const SmallServer server{.num_pages = 400, .num_window_pages = 400};
  GeneratedRequestsOptions families{.num_requests = 60,
                                    .clients = 1,
                                    .prompt = {.mean = 100},
                                    .output = {.mean = 10},
                                    .families = 2,
                                    .family_tokens = 1024};
  const ServingResult shared = simulate(server.setup(), families);
  // After the first of each family, its 1024 tokens are in the cache.
  std::int64_t cold = 0;
  for (const RequestRecord& request : shared.requests) {
    if (request.cached_tokens == 0) ++cold;
  }
  EXPECT_GE(cold, 2);
  EXPECT_LE(cold, 4) << "a prefix is found once its branches have parted";

  const GeneratedRequestsOptions turns{
      .num_requests = 5, .clients = 1, .prompt = {.mean = 300}, .output = {.mean = 200}, .turns = 5};
  const ServingResult session = simulate(server.setup(), turns);
  for (std::size_t turn = 0; turn < 5; ++turn) {
    const RequestRecord& request = session.requests[turn];
    EXPECT_EQ(request.prompt_tokens, 300 + static_cast<std::int64_t>(turn) * 500);
    // The last turn's tokens but its last one, in whole pages.
    const std::int64_t before = turn == 0 ? 0 : request.prompt_tokens - 300 - 1;
    EXPECT_EQ(request.cached_tokens, before / kPageTokens * kPageTokens);
  }

  ServerSetup setup = server.setup();
  setup.geometry.shares_prefixes = false;
  for (const RequestRecord& request : simulate(setup, families).requests) EXPECT_EQ(request.cached_tokens, 0);
}

TEST(Speculation, CertainDraftsGiveAsManyTokensAStepAndHopelessOnesNone) {
  const SmallServer server{.max_draft_tokens = 3};
  const auto result_with = [&](std::vector<double> chain) {
    ListedRequests workload({request_at(0, 0, 100, 41)});
    ServerSetup setup = server.setup();
    setup.scheduler.draft_schedule = false;
    return simulate_serving(
        {.server = std::move(setup), .acceptance = Acceptance::of_chain(std::move(chain), 1)}, workload);
  };
  // One token with the prompt, then 40 by fours.
  const ServingResult certain = result_with({1});
  EXPECT_EQ(certain.servers[0].steps, 1 + 10);
  EXPECT_EQ(certain.requests[0].accepted_tokens, 30);
  const ServingResult hopeless = result_with({0});
  EXPECT_EQ(hopeless.servers[0].steps, 41);
  EXPECT_EQ(hopeless.requests[0].accepted_tokens, 0);
  EXPECT_LT(certain.requests[0].finished, hopeless.requests[0].finished);
}

TEST(TwoPools, TokensGoOnAfterTheTransfer) {
  const SmallServer server;
  ServingOptions options{.server = server.setup(), .decode = server.setup()};
  options.link = {.bytes_per_second = 1e8, .latency_seconds = 0.25};
  ListedRequests workload({request_at(0, 0, 200, 3), request_at(1, 0, 1, 1)});
  const ServingResult result = simulate_serving(options, workload);
  AffineStepTimes times;
  const RequestRecord& moved = result.requests[0];
  const auto bytes = static_cast<double>(transfer_bytes(options.server.geometry, 200));
  double now = moved.first_token + bytes / 1e8 + 0.25;
  for (std::int64_t position = 200; position < 202; ++position) {
    const QueryPart part{position, 1, 1};
    now += times.step_seconds(std::span(&part, 1));
  }
  EXPECT_NEAR(moved.finished, now, 1e-12);
  EXPECT_EQ(moved.output_tokens, 3);
  // Who has only one token never moves.
  EXPECT_EQ(result.requests[1].finished, result.requests[1].first_token);
  EXPECT_EQ(result.servers[0].steps, 1);
  EXPECT_EQ(result.servers[1].steps, 2);
}

TEST(TwoPools, TransfersWaitForTheLink) {
  const SmallServer server;
  ServingOptions options{.server = server.setup(), .decode = server.setup()};
  options.link = {.bytes_per_second = 1e6, .latency_seconds = 0};
  ListedRequests workload({request_at(0, 0, 200, 2), request_at(1, 0, 200, 2)});
  const ServingResult result = simulate_serving(options, workload);
  const double transfer = static_cast<double>(transfer_bytes(options.server.geometry, 200)) / 1e6;
  EXPECT_EQ(result.requests[0].first_token, result.requests[1].first_token);
  EXPECT_NEAR(result.requests[1].finished - result.requests[0].finished, transfer, 0.01);
}

TEST(TwoPools, ACrowdedDecodePoolPreemptsAndAllEnd) {
  ServingOptions options{.server = SmallServer().setup(),
                         .decode = SmallServer{.num_pages = 9, .num_window_pages = 12}.setup()};
  options.decode->limits.context_tokens = options.server.limits.context_tokens;
  options.link = {.bytes_per_second = 1e9, .latency_seconds = 1e-5};
  const GeneratedRequestsOptions workload{.num_requests = 100,
                                          .rate = 100,
                                          .prompt = {.mean = 300, .variation = 0.3},
                                          .output = {.mean = 300, .variation = 0.3}};
  const ServingFigures figures =
      figures_of(simulate_serving(options, *make_generated_requests(workload)), {});
  EXPECT_EQ(figures.finished, 100);
  EXPECT_GT(figures.servers[1].preemptions, 0);
}

TEST(TransferBytes, AreTheSpecifications) {
  // 8192 tokens: 32.0 MB of Flash's cache, 45.8 MB of Pro's, beside compressor state. The MTP block's window
  // is ours.
  const auto without_state = [](const char* preset) {
    const ModelConfig config = preset_config(preset);
    const CacheGeometry geometry = cache_geometry(config, EngineOptions{});
    const std::int64_t mtp_window = 128 * geometry.latent.row_bytes() * config.num_nextn_predict_layers;
    return transfer_bytes(geometry, 8192) - geometry.state_slot_bytes() - mtp_window;
  };
  EXPECT_NEAR(static_cast<double>(without_state("flash")), 32.0e6, 0.05e6);
  EXPECT_NEAR(static_cast<double>(without_state("pro")), 45.8e6, 0.05e6);
}

TEST(Patience, EndsTheWaitAndNothingElse) {
  const SmallServer server{.max_sequences = 2};
  const GeneratedRequestsOptions crowd{
      .num_requests = 300, .rate = 100, .prompt = {.mean = 300}, .output = {.mean = 100}};
  ServingOptions options{.server = server.setup(), .patience_seconds = 0.3};
  const ServingResult result = simulate_serving(options, *make_generated_requests(crowd));
  std::int64_t abandoned = 0;
  for (const RequestRecord& request : result.requests) {
    // Turns of the loop are a step apart at most; this one's longest takes less than 20 ms.
    if (request.end == RequestEnd::kAbandoned) {
      ++abandoned;
      EXPECT_GE(request.finished, request.arrival + 0.3);
      EXPECT_LE(request.finished, request.arrival + 0.32);
    } else {
      EXPECT_EQ(request.end, RequestEnd::kFinished);
      EXPECT_LE(request.first_token, request.arrival + 0.32);
    }
  }
  EXPECT_GT(abandoned, 100);
  options.patience_seconds = 0;
  EXPECT_THROW(static_cast<void>(simulate_serving(options, *make_generated_requests(crowd))), Error);
}

TEST(Refusals, SaySo) {
  const SmallServer server{.num_pages = 4};
  const ServingResult result =
      simulate(server.setup(), {request_at(0, 0, 5000, 10), request_at(1, 0, 10, 10)});
  EXPECT_EQ(result.requests[0].end, RequestEnd::kRefused);
  EXPECT_EQ(result.requests[1].end, RequestEnd::kFinished);
  EXPECT_EQ(result.first_refusal,
            "the prompt has 5000 tokens, and the context holds 1024; shorten the prompt");
}

TEST(Refusals, RepliesEndWithTheContext) {
  const SmallServer server{.num_pages = 4};
  const ServingResult result = simulate(server.setup(), {request_at(0, 0, 1000, 500)});
  EXPECT_EQ(result.requests[0].output_tokens, 1024 - 1000 + 1);
}

TEST(BadSetup, IsASentence) {
  ServerSetup setup = SmallServer().setup();
  setup.limits.max_sequences = 0;
  EXPECT_THROW(static_cast<void>(simulate(setup, {request_at(0, 0, 1, 1)})), Error);
  setup = SmallServer().setup();
  setup.capacity.num_state_slots = 1;
  EXPECT_THROW(static_cast<void>(simulate(setup, {request_at(0, 0, 1, 1)})), Error);
  ServingOptions options{.server = SmallServer().setup(), .decode = SmallServer().setup()};
  ListedRequests workload({request_at(0, 0, 1, 1)});
  EXPECT_THROW(static_cast<void>(simulate_serving(options, workload)), Error) << "a link without bandwidth";
}

}  // namespace
}  // namespace baleen
