#include "app/commands.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "app/draft_flags.h"
#include "app/ending_flags.h"
#include "app/engine_flags.h"
#include "app/generation_flags.h"
#include "app/open_model.h"
#include "app/option_names.h"
#include "app/option_ranges.h"
#include "app/options.h"
#include "app/shutdown_signal.h"
#include "base/clock.h"
#include "base/memory_reserve.h"
#include "base/standard_streams.h"
#include "comm/mpi/mpi_world.h"
#include "log/log.h"
#include "log/log_thread.h"
#include "rank_engine/rank_engine.h"
#include "scheduler/scheduler.h"
#include "server/api_server.h"
#include "tokenizer/tokenizer.h"

namespace baleen {
namespace {

constexpr std::size_t kMaxTreeNodes = 512;  // more than a picture can show

struct ServeFlags {
  EngineFlags engine;
  HttpServerOptions http;
  SchedulerOptions scheduler;
  DraftFlags drafts;
  std::int64_t max_sequences = 64;
  std::int64_t max_batch_tokens = 512;
  std::int64_t cached_window_pages = 0;
  std::int64_t reserved_tails = 16;
  std::string cache_dir;
  std::int64_t cache_disk_bytes = std::int64_t{10} << 30;
  std::string cache_windows = "all";
  std::int64_t cache_checkpoint_pages = 8;
  ResponseStoreOptions responses;
  std::string conversations;
  std::size_t conversations_bytes = ConversationStoreOptions{}.max_bytes;
  std::vector<std::string> mcp_origins;
  std::string name;
  std::string api_key_file;
  std::vector<std::string> allowed_hosts;
  std::vector<std::string> cors_origins;
  double drain_seconds = 30;
  std::int64_t max_reply_tokens = 32768;
  bool any_model = false;
  bool think = false;
  EndingFlags ending;
  bool controls_in_content = false;
  bool quiet = false;
  bool log_text = false;
  bool no_prefix_cache = false;
};

void add_network_options(Options& command, ServeFlags& flags) {
  constexpr WholeRange kPorts{0, 65535}, kBodyBytes{1, std::int64_t{1} << 32}, kConnections{1, 1 << 20};
  constexpr WholeRange kBodiesBytes{1, std::int64_t{1} << 40};
  command.text("--host", flags.http.host, "Address to listen at; 0.0.0.0: every one of this machine");
  flags.http.port = 8080;
  command.integer("--port,-p", flags.http.port, kPorts, "0: any free one, printed at start");
  command.path("--api-key-file", flags.api_key_file, "One key a line; requests must then bring one of them");
  command.texts("--allowed-host", flags.allowed_hosts,
                "A name by which requests may call this server, besides localhost; may be repeated");
  command.texts(
      "--cors-origin", flags.cors_origins,
      "A web page's origin (https://chat.example) that may use this server; may be repeated, \"*\" for all "
      "needs --api-key-file");
  command.bytes("--max-bodies-bytes", flags.http.max_bodies_bytes, kBodiesBytes,
                "Memory for the bodies of all requests together; more get 503");
  command.bytes("--max-body-bytes", flags.http.max_body_bytes, kBodyBytes, "Largest request");
  command.integer("--max-connections", flags.http.max_connections, kConnections, "Open at a time");
  command.real("--drain-seconds", flags.drain_seconds, kSecondsRange,
               "After SIGTERM, SIGHUP or Ctrl-C, wait so long for replies to end");
}

void add_response_options(Options& command, ServeFlags& flags) {
  constexpr WholeRange kResponses{0, 1 << 26}, kResponseBytes{0, std::int64_t{1} << 40};
  command.integer("--kept-responses", flags.responses.max_responses, kResponses,
                  "Responses that clients may go on from by their id; 0: none are kept");
  command.bytes("--kept-response-bytes", flags.responses.max_bytes, kResponseBytes, "Memory for them");
}

void add_page_options(Options& command, ServeFlags& flags) {
  constexpr WholeRange kConversationBytes{1, std::int64_t{1} << 44};
  command.path("--conversations", flags.conversations,
               "Keep conversations of the chat page in this folder, where the page is asked to");
  command.bytes("--conversations-bytes", flags.conversations_bytes, kConversationBytes,
                "Budget of that folder, for each API key");
  command.texts("--mcp-origin", flags.mcp_origins,
                "An origin (https://tools.example) of MCP servers whose tools the chat page may run; may be "
                "repeated; \"loopback\", the default: any on the reader's own machine; \"none\"");
}

void add_scheduling_options(Options& command, ServeFlags& flags) {
  command.integer("--max-sequences", flags.max_sequences, kSequencesRange, "Replies at a time");
  command.integer("--max-batch-tokens", flags.max_batch_tokens, kStepTokensRange,
                  "Tokens of one step, over all sequences");
  command.integer("--max-queue", flags.scheduler.max_queue, kQueueLengthRange,
                  "Requests that wait; more are answered 429");
  command.integer(
      "--max-reply-tokens", flags.max_reply_tokens, kTokensRange,
      "Tokens of a reply at most, where the request does not say; 0: as many as the context holds");
  command.integer(
      "--speculate", flags.scheduler.speculate, kDraftsRange,
      "Tokens that the model's draft head drafts for each step, at most; the text stays the same");
  flags.drafts.add_schedule_to(command);
  flags.drafts.add_threshold_to(command);
}

void add_cache_options(Options& command, ServeFlags& flags) {
  command.flag("--no-prefix-cache", flags.no_prefix_cache, "Compute every prompt from its first token");
  command.integer(
      "--cached-window-pages", flags.cached_window_pages, kPagesRange,
      "Window pages for cached prefixes, beside those of running sequences; 0: as the engine thinks best");
  command.integer("--reserved-tails", flags.reserved_tails, kPagesRange,
                  "Ends of recent conversations whose window rows are evicted last");
  command.path("--cache-dir", flags.cache_dir, "Keep prefixes on disk here; they survive a restart");
  command.bytes("--cache-disk-bytes", flags.cache_disk_bytes, kDiskBytesRange, "Budget of that folder");
  command.choice("--cache-windows", flags.cache_windows, {"all", "checkpoints", "none"},
                 "Window rows on disk: of all pages, at checkpoints, or none (recomputed after a hit)");
  command.integer("--cache-checkpoint-pages", flags.cache_checkpoint_pages, {1, 1 << 20},
                  "Pages from checkpoint to checkpoint");
}

WindowPolicy window_policy(const std::string& name) {
  if (name == "checkpoints") return WindowPolicy::kCheckpoints;
  return name == "none" ? WindowPolicy::kNone : WindowPolicy::kAll;
}

void log_sentence(const std::string& sentence) { log_line("baleen: {}", in_options(sentence)); }

EngineOptions engine_options(const ServeFlags& flags) {
  EngineOptions options = flags.engine.options({PlanGoal::kManyReplies, flags.max_sequences});
  options.max_batch_tokens = flags.max_batch_tokens;
  options.max_sequences = flags.max_sequences;
  options.max_draft_tokens = flags.scheduler.speculate;
  // Every running sequence may want a row for its token and each of its drafts.
  options.max_logit_rows =
      std::min(options.max_batch_tokens, options.max_sequences * (1 + flags.scheduler.speculate));
  options.report_balance = log_sentence;
  options.report_refusal = log_sentence;
  options.prefix_cache = !flags.no_prefix_cache;
  options.cached_window_pages = flags.cached_window_pages;
  options.reserved_tails = flags.reserved_tails;
  if (!flags.cache_dir.empty()) {
    if (flags.no_prefix_cache) fail("--cache-dir keeps prefixes, --no-prefix-cache forbids them; choose one");
    options.disk = DiskCacheOptions{.folder = flags.cache_dir,
                                    .budget_bytes = flags.cache_disk_bytes,
                                    .window_policy = window_policy(flags.cache_windows),
                                    .checkpoint_pages = flags.cache_checkpoint_pages,
                                    .warn = log_sentence};
  }
  return options;
}

ServedModel served_model(const ServeFlags& flags, PromptProfile profile, const ModelEngine& engine,
                         const Tokenizer& tokenizer) {
  const ModelConfig& config = engine.config();
  const SamplingParams defaults = GenerationFlags{}.params(flags.engine.model, config.vocab_size, tokenizer);
  ServedModel model;
  model.name = flags.name;
  if (model.name.empty()) {
    // The slash makes "stories/" and "stories" alike.
    model.name = (std::filesystem::absolute(flags.engine.model) / "").parent_path().filename().string();
  }
  model.any_name = flags.any_model;
  model.tokenizer = &tokenizer;
  model.limits = engine.limits();
  model.bos = static_cast<TokenId>(config.bos_token_id);
  model.eos = static_cast<TokenId>(config.eos_token_id);
  model.max_reply_tokens = flags.max_reply_tokens;
  model.temperature = defaults.temperature;
  model.top_p = defaults.top_p;
  model.think_by_default = flags.think;
  model.prompt_profile = profile;
  model.thinking_budget = flags.ending.think_budget;
  model.repetition = flags.ending.repetition_limits();
  model.controls_in_content = flags.controls_in_content;
  model.bounded_replay_tokens = engine.options().bounded_replay_tokens;
  model.num_layers = config.num_hidden_layers;
  model.num_experts = config.n_routed_experts;
  model.created_unix_seconds = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  return model;
}

EngineView view_of(ModelEngine& engine, std::int64_t disk_budget_bytes) {
  EngineView view;
  view.tree = engine.tree(kMaxTreeNodes);
  view.expert_load = engine.expert_load();
  if (const ExpertBalance* balance = engine.expert_balance()) view.expert_balance = *balance;
  view.expert_places = engine.expert_places();
  for (const ExpertMap& map : engine.expert_maps())
    view.expert_table.emplace_back(map.physical_to_logical().begin(), map.physical_to_logical().end());
  for (const auto& [name, record] : engine.device().profile().records()) {
    view.operations.push_back({.name = std::string(name),
                               .calls = record.calls,
                               .seconds = record.seconds,
                               .bytes = record.cost.total_bytes(),
                               .flops = record.cost.total_flops()});
  }
  view.disk = engine.disk_stats();
  view.disk_budget_bytes = disk_budget_bytes;
  const ParallelPlan& plan = engine.options().parallel;
  view.num_ranks = plan.num_devices;
  view.num_groups = plan.dp;
  view.num_prefill_groups = plan.prefill_groups;
  view.transfers = engine.transfer_stats();
  view.plan = to_text(plan);
  return view;
}

void serve(ServeFlags flags) {
  ApiServerOptions options{.http = flags.http, .log_requests = !flags.quiet, .log_text = flags.log_text};
  options.responses = flags.responses;
  options.conversations = {.folder = flags.conversations, .max_bytes = flags.conversations_bytes};
  options.mcp_origins = flags.mcp_origins;
  options.name_options = in_options;
  if (!flags.api_key_file.empty()) options.access.keys = ApiKeys(flags.api_key_file);
  options.access.allowed_hosts = flags.allowed_hosts;
  options.access.cors_origins = flags.cors_origins;
  const bool keys_required = options.access.keys.required();
  // Before any thread starts, so that all of them leave these signals to the one that waits for them.
  fill_memory_reserve();
  ShutdownSignal shutdown;
  const LogThread log;

  ModelFolder folder = open_model_folder(flags.engine.model, flags.engine.prompts.chosen());
  const CheckpointKind kind = folder.kind;
  const Tokenizer tokenizer = Tokenizer::load(flags.engine.model);
  EngineOptions wanted = engine_options(flags);
  wanted.asked_to_end = [&shutdown] { shutdown.ask(); };
  const std::unique_ptr<ModelEngine> opened = open_model(std::move(folder), wanted);
  log_prompt_profile(kind, tokenizer);
  ModelEngine& engine = *opened;
  flags.drafts.check(engine);
  flags.drafts.apply_to(flags.scheduler);
  flags.scheduler.warn = log_sentence;
  // Where operations are queued, times of single ones would keep steps from being replayed.
  engine.device().set_profiling(!engine.device().traits().queues);
  flags.scheduler.max_batch_tokens = flags.max_batch_tokens;
  Scheduler scheduler(engine, tokenizer, flags.scheduler, monotonic_seconds);
  const auto probe = [&engine, budget = flags.cache_disk_bytes] { return view_of(engine, budget); };
  ApiServer server(served_model(flags, kind.prompts.profile.value, engine, tokenizer), scheduler, probe,
                   std::move(options));

  std::string lost_engine;
  std::jthread loop([&](const std::stop_token& stop) {
    try {
      scheduler.run(stop);
    } catch (const std::exception& lost) {
      lost_engine = in_options(lost.what());
      server.drain(flags.drain_seconds);  // every reply has ended, with this error
    }
  });
  shutdown.on_first([&] {
    log_line("baleen: shutting down, replies have {} s to end; once more: at once", flags.drain_seconds);
    server.drain(flags.drain_seconds);
  });
  shutdown.on_second([&] { server.stop(); });
  if (const std::optional<std::int64_t> seconds = seconds_before_mpirun_kills()) {
    shutdown.on_parents([&, seconds = *seconds] {
      // The other half is for the last words of replies and the end of the ranks.
      const double drain_seconds = std::min(flags.drain_seconds, static_cast<double>(seconds) / 2);
      log_line("baleen: mpirun ends this server and kills it after {} s: replies have {} s to end", seconds,
               drain_seconds);
      server.drain(drain_seconds);
    });
  }
  if (!flags.quiet) {
    log_lines(engine.memory_text());
    log_expert_transport(engine);
  }
  const bool wildcard = flags.http.host == "0.0.0.0" || flags.http.host == "::";
  if (keys_required && std::ranges::count(flags.cors_origins, "*") > 0)
    log_line("baleen: --cors-origin \"*\": pages of every origin may use this server, with a key");
  if (!keys_required && wildcard) {
    log_line("baleen: listening at every address without --api-key-file: anyone who reaches it may use it");
  }
  const bool brackets = flags.http.host.find(':') != std::string::npos;
  write_if_possible(STDOUT_FILENO, fmt::format("listening on http://{}{}{}:{}\n", brackets ? "[" : "",
                                               flags.http.host, brackets ? "]" : "", server.port()));
  server.run();
  // The server goes before the thread that waits for signals.
  shutdown.on_first(nullptr);
  shutdown.on_second(nullptr);
  shutdown.on_parents(nullptr);
  loop.request_stop();
  loop.join();
  if (!lost_engine.empty()) fail("{}", lost_engine);
}

}  // namespace

void add_serve_command(Options& command) {
  auto flags = std::make_shared<ServeFlags>();
  flags->engine.add_all_but_chunk_to(command);
  flags->engine.add_prompt_profile_to(command);
  add_network_options(command, *flags);
  add_response_options(command, *flags);
  add_page_options(command, *flags);
  add_scheduling_options(command, *flags);
  add_cache_options(command, *flags);
  command.text("--name", flags->name, "What clients call the model; otherwise its folder's name");
  command.flag("--any-model", flags->any_model,
               "Answer whatever model a request names: agents often ask for several");
  command.flag("--think", flags->think, "Think in conversations whose request does not say");
  flags->ending.add_think_budget_to(command, "Tokens of thinking at most, where the request does not say");
  flags->ending.add_to(command);
  command.flag(
      "--control-tokens-in-content", flags->controls_in_content,
      "Special strings in messages become control tokens, as in the official encoder; whoever writes a "
      "message can then forge turns");
  command.flag("--quiet,-q", flags->quiet, "No line for each request");
  command.flag("--log-text", flags->log_text, "Print the bodies of requests too");
  command.action([flags] { serve(*flags); });
}

}  // namespace baleen
