#include "app/commands.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "app/engine_flags.h"
#include "app/generation_flags.h"
#include "app/open_model.h"
#include "app/options.h"
#include "app/thinking.h"
#include "base/error.h"
#include "base/interrupt_flag.h"
#include "base/piped_text.h"
#include "base/progress.h"
#include "base/standard_streams.h"
#include "chat/content_divider.h"
#include "chat/render.h"
#include "generation/generate.h"
#include "log/log.h"
#include "rank_engine/rank_engine.h"
#include "terminal/reply_printer.h"

namespace baleen {
namespace {

struct RunFlags {
  EngineFlags engine;
  GenerationFlags generation;
  std::string prompt;
  std::string file;
  std::string system;
  std::string think = "off";
  bool chat = false;
  bool quiet = false;
};

std::string prompt_text(const RunFlags& flags) {
  if (!flags.file.empty()) return read_file_or_pipe(flags.file);
  if (flags.prompt != "-") return flags.prompt;
  return read_standard_input();
}

/// How the prompt of a conversation is made.
RenderOptions chat_options(const RunFlags& flags, const PromptProfile& profile) {
  const Result<Thinking> thinking = thinking_named(profile, flags.think);
  if (!thinking) fail("--think: {}", thinking.error());
  return {.profile = profile,
          .thinking_mode = thinking.value().mode(),
          .reasoning_effort = thinking.value().effort};
}

MarkedText chat_prompt(const RunFlags& flags, const RenderOptions& options, std::string text) {
  std::vector<Message> messages;
  if (!flags.system.empty()) messages.push_back({.role = Role::kSystem, .content = flags.system});
  messages.push_back({.role = Role::kUser, .content = std::move(text)});
  auto rendered = render_marked_prompt(messages, options);
  if (!rendered) fail("prompt: {}", rendered.error());
  return std::move(rendered).value();
}

/// A raw prompt is the whole text, control tokens included; of a conversation only the format's own are.
Result<std::vector<TokenId>> encoded_prompt(const RunFlags& flags, const RenderOptions& options,
                                            const Tokenizer& tokenizer, std::string text) {
  if (!flags.chat) return tokenizer.encode(text);
  const MarkedText prompt = chat_prompt(flags, options, std::move(text));
  return flags.generation.controls_in_content ? tokenizer.encode(prompt.text) : tokenizer.encode(prompt);
}

void print_logprobs(const Tokenizer& tokenizer, const SampledToken& token) {
  std::string line =
      fmt::format("{:>8} {:9.4f} {:?}", token.id, *token.logprob, tokenizer.bytes_of(token.id));
  for (const TokenLogprob& other : token.top_logprobs) {
    line += fmt::format("  {:?} {:.4f}", tokenizer.bytes_of(other.id), other.logprob);
  }
  log_line(line);
}

void run_once(const RunFlags& flags) {
  const EngineOptions options = flags.engine.options();
  const std::string text = prompt_text(flags);
  ModelFolder folder = open_model_folder(flags.engine.model, flags.engine.prompts.chosen());
  const CheckpointKind kind = folder.kind;
  const RenderOptions chat = chat_options(flags, kind.prompts.profile.value);
  const Tokenizer tokenizer = Tokenizer::load(flags.engine.model);
  auto encoded = encoded_prompt(flags, chat, tokenizer, text);
  if (!encoded) fail("prompt: {}", encoded.error());
  GenerationRequest request;
  request.prompt = std::move(encoded).value();

  const std::unique_ptr<ModelEngine> opened = open_model(std::move(folder), options);
  if (flags.chat) log_prompt_profile(kind, tokenizer);
  ModelEngine& engine = *opened;
  if (!flags.quiet) log_expert_transport(engine);
  const auto bos = static_cast<TokenId>(engine.config().bos_token_id);
  if (request.prompt.empty() || request.prompt.front() != bos)
    request.prompt.insert(request.prompt.begin(), bos);
  if (static_cast<std::int64_t>(request.prompt.size()) > engine.context_tokens()) {
    fail("prompt: {} tokens, the context holds {}; shorten the prompt{}", request.prompt.size(),
         engine.context_tokens(), flags.engine.context > 0 ? " or raise --context" : "");
  }
  request.sampling = flags.generation.params(flags.engine.model, engine.config().vocab_size, tokenizer);
  request.stops = flags.generation.stops;
  if (flags.chat)
    request.make_divider = content_divider(chat.thinking_mode, /*may_call=*/true, CallEnforcement::kNone,
                                           call_tags(chat.profile));
  request.stop_tokens = {static_cast<TokenId>(engine.config().eos_token_id)};
  request.max_tokens = flags.generation.max_tokens;
  if (flags.chat) request.thinking = flags.generation.ending.thinking_limits(tokenizer, chat.thinking_mode);
  request.repetition = flags.generation.ending.repetition_limits();

  const InterruptFlag interrupt;
  ReplyPrinter reply(flags.chat ? chat.thinking_mode : ThinkingMode::kChat, stdout, call_tags(chat.profile));
  auto progress =
      std::make_unique<Progress>("prompt", "tokens", static_cast<std::int64_t>(request.prompt.size()));
  GenerationCallbacks callbacks;
  callbacks.cancelled = [&] { return interrupt.raised(); };
  callbacks.on_prompt = [&](std::int64_t done, std::int64_t total) {
    progress->update(done);
    if (done == total) progress.reset();
  };
  callbacks.on_text = [&](std::string_view piece) {
    if (flags.chat) return reply.feed(piece);
    fmt::print("{}", piece);
    flush_checked(stdout);
  };
  if (request.sampling.num_logprobs >= 0) {
    callbacks.on_token = [&](const SampledToken& token) { print_logprobs(tokenizer, token); };
  }
  const SequenceId sequence = *engine.open_prompt({}, std::ssize(request.prompt));
  const Result<Generated> generated = generate(engine, tokenizer, sequence, request, callbacks);
  if (flags.chat) {
    reply.finish();
  } else {
    fmt::print("\n");
    flush_checked(stdout);  // in front of the figures, also where both streams are one pipe
  }
  if (!generated) fail("{}: {}", flags.engine.model, generated.error());
  if (!flags.quiet) {
    log_line("[{}; {}{}; seed {}]", speed_text(generated.value()), end_text(generated.value().end),
             thinking_end_text(generated.value().thinking_end), generated.value().seed);
  }
}

}  // namespace

void add_run_command(Options& command) {
  auto flags = std::make_shared<RunFlags>();
  const Option prompt = command.text("prompt", flags->prompt, "The prompt; - reads standard input");
  command.path("--file,-f", flags->file, "Read the prompt from a file or pipe").excludes(prompt);
  const Option chat = command.flag("--chat,-c", flags->chat, "Send the prompt as a user's message");
  command.text("--system", flags->system, "System message, with --chat").needs(chat);
  const Option think =
      command
          .choice("--think", flags->think, all_thinking_names(), kThinkingNumbers,
                  "With --chat: how hard to think before the reply, as the model's prompt profile has it " +
                      efforts_by_profile())
          .needs(chat);
  flags->generation.ending.add_think_budget_to(command, "With --think: tokens of reasoning at most")
      .needs(think);
  command.flag("--quiet,-q", flags->quiet, "No line of figures at the end");
  command.integer_without_default("--logprobs", flags->generation.sampling.num_logprobs,
                                  {0, SamplingParams::kMaxLogprobs},
                                  "Print each token's logprob and this many alternatives to standard error");
  flags->generation.add_to(command);
  flags->generation.add_controls_in_content_to(command).needs(chat);
  flags->engine.add_to(command);
  flags->engine.add_prompt_profile_to(command);
  command.action([flags] {
    if (flags->prompt.empty() && flags->file.empty())
      usage_error("a prompt is missing: text, - for standard input, or --file");
    run_once(*flags);
  });
}

}  // namespace baleen
