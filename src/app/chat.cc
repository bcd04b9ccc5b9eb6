#include "app/commands.h"

#include <fmt/format.h>
#include <unistd.h>

#include <exception>
#include <memory>
#include <string>

#include "app/chat_command.h"
#include "app/chat_session.h"
#include "app/conversation_engine.h"
#include "app/engine_flags.h"
#include "app/generation_flags.h"
#include "app/open_model.h"
#include "app/option_names.h"
#include "app/options.h"
#include "app/thinking.h"
#include "base/check.h"
#include "base/error.h"
#include "base/interrupt_flag.h"
#include "base/json.h"
#include "base/utf8.h"
#include "chat/content_divider.h"
#include "chat/format.h"
#include "chat/message_json.h"
#include "chat/parse.h"
#include "chat/render.h"
#include "rank_engine/rank_engine.h"
#include "terminal/line_reader.h"
#include "terminal/reply_printer.h"

namespace baleen {
namespace {

struct ChatFlags {
  EngineFlags engine;
  GenerationFlags generation;
  std::string system;
  std::string think = "off";
};

ChatSession::Json reply_json(const Message& message) {
  auto json =
      parse_ordered_json(dump_python_json(message_to_json(message)), {.max_depth = kMaxJsonDepth + 16});
  BALEEN_CHECK(json.ok());  // what the parser of replies takes, and some levels around it
  return std::move(json).value();
}

/// What a reply means: strictly parsed when it is complete, otherwise reasoning and content as far as they
/// came.
Message reply_message(const Generated& generated, ThinkingMode mode, const CallTags& tags) {
  if (generated.end == ReplyEnd::kStopToken) {
    auto parsed = parse_completion(generated.text + std::string(chat_format::kEos), mode, tags);
    if (parsed) return std::move(parsed).value();
  }
  Message message{.role = Role::kAssistant};
  StreamSplitter splitter(mode, tags);
  auto deltas = splitter.feed(generated.text);
  for (auto& delta : splitter.finish()) deltas.push_back(std::move(delta));
  for (const StreamSplitter::Delta& delta : deltas) {
    (delta.kind == StreamSplitter::Kind::kReasoning ? message.reasoning_content : message.content) +=
        delta.text;
  }
  return message;
}

struct OpenedChat {
  CheckpointKind kind;
  PromptProfile profile;
  Thinking thinking;
  std::unique_ptr<ModelEngine> engine;
};

OpenedChat opened(const ChatFlags& flags) {
  ModelFolder folder = open_model_folder(flags.engine.model, flags.engine.prompts.chosen());
  const CheckpointKind kind = folder.kind;
  const PromptProfile& profile = kind.prompts.profile.value;
  const Result<Thinking> thinking = thinking_named(profile, flags.think);
  if (!thinking) fail("--think: {}", thinking.error());
  return {kind, profile, thinking.value(), open_model(std::move(folder), flags.engine.options())};
}

/// The conversation loop: lines in, replies out.
class ChatLoop {
 public:
  explicit ChatLoop(const ChatFlags& flags)
      : flags_(flags),
        opened_(opened(flags)),
        engine_(*opened_.engine),
        tokenizer_(Tokenizer::load(flags.engine.model)),
        conversation_(engine_, tokenizer_, flags.generation.controls_in_content),
        session_(flags.system, opened_.profile),
        sampling_(flags.generation.params(flags.engine.model, engine_.config().vocab_size, tokenizer_)),
        thinking_(opened_.thinking) {}

  void run() {
    log_prompt_profile(opened_.kind, tokenizer_);
    log_expert_transport(engine_);
    if (::isatty(STDIN_FILENO) == 1)
      fmt::print("{}: type a message, /help for commands, Ctrl-D to leave\n", flags_.engine.model);
    LineReader reader("> ");
    while (!quit_) {
      const std::optional<std::string> line = reader.read();
      if (!line) break;
      if (line->find_first_not_of(" \t\r\n") == std::string::npos) continue;
      if (is_chat_command(*line)) {
        obey_and_go_on(*line);
      } else if (const auto bad = find_invalid_utf8(*line)) {
        fmt::print("the message is not UTF-8 at byte {}; it was not sent\n", *bad);
      } else {
        session_.add_user(*line);
        answer();
      }
    }
  }

 private:
  /// Whatever goes wrong in a command, the conversation stays.
  void obey_and_go_on(const std::string& line) {
    try {
      obey(line);
    } catch (const std::exception& error) {
      fmt::print("the command failed: {}; the conversation goes on\n", in_options(error.what()));
    }
  }

  [[nodiscard]] ThinkingMode mode() const { return thinking_.mode(); }
  [[nodiscard]] const CallTags& tags() const { return call_tags(opened_.profile); }

  void obey(const std::string& line) {
    const Result<ChatCommand> command = parse_chat_command(line, opened_.profile);
    if (!command) return fmt::print("{}\n", command.error());
    switch (command.value().kind) {
      case ChatCommand::Kind::kHelp:
        return fmt::print("{}", chat_command_help(opened_.profile));
      case ChatCommand::Kind::kNew:
        session_.start_anew();
        return fmt::print("a new conversation\n");
      case ChatCommand::Kind::kSave:
        return report("saved to", session_.save(command.value().file), command.value().file);
      case ChatCommand::Kind::kLoad:
        return report("loaded from", session_.load(command.value().file), command.value().file);
      case ChatCommand::Kind::kThink:
        thinking_ = command.value().thinking;
        return fmt::print("thinking {}\n", thinking_.name());
      case ChatCommand::Kind::kStats:
        return print_stats();
      case ChatCommand::Kind::kQuit:
        quit_ = true;
    }
  }

  static void report(std::string_view what, const Result<std::size_t>& count,
                     const std::filesystem::path& file) {
    fmt::print("{}\n",
               count ? fmt::format("{} messages {} {}", count.value(), what, file.string()) : count.error());
  }

  void print_stats() {
    fmt::print("{} messages, {} of {} positions in the cache\n", session_.messages().size(),
               conversation_.length(), engine_.context_tokens());
    if (!last_stats_.empty()) fmt::print("last reply: {}\n", last_stats_);
    fmt::print("{}", engine_.memory_text());
  }

  Result<MarkedText> prompt() const {
    const auto messages = session_.chat_messages();
    if (!messages) return failure("{}", messages.error());
    return render_marked_prompt(
        messages.value(),
        {.profile = opened_.profile, .thinking_mode = mode(), .reasoning_effort = thinking_.effort});
  }

  void answer() {
    const Result<MarkedText> text = prompt();
    if (!text) return give_up(text.error());
    const InterruptFlag interrupt;
    ReplyPrinter printer(mode(), stdout, tags());
    GenerationRequest request;
    request.sampling = sampling_;
    request.stops = flags_.generation.stops;
    request.make_divider = content_divider(mode(), /*may_call=*/true, CallEnforcement::kNone, tags());
    request.stop_tokens = {static_cast<TokenId>(engine_.config().eos_token_id)};
    request.max_tokens = flags_.generation.max_tokens;
    request.thinking = flags_.generation.ending.thinking_limits(tokenizer_, mode());
    request.repetition = flags_.generation.ending.repetition_limits();
    GenerationCallbacks callbacks;
    callbacks.on_text = [&](std::string_view piece) { printer.feed(piece); };
    callbacks.cancelled = [&] { return interrupt.raised(); };
    const Result<Generated> generated = conversation_.reply(text.value(), std::move(request), callbacks);
    printer.finish();
    if (!generated) return give_up(generated.error());
    last_stats_ = fmt::format("{}; {}{}", speed_text(generated.value()), end_text(generated.value().end),
                              thinking_end_text(generated.value().thinking_end));
    if (generated.value().end == ReplyEnd::kRepetition) fmt::print("[the reply looped and was ended]\n");
    if (generated.value().end == ReplyEnd::kCancelled) {
      if (generated.value().text.empty()) return give_up("stopped before the reply began");
      fmt::print("[stopped; the reply stays as far as it came]\n");
    }
    session_.add_reply(reply_json(reply_message(generated.value(), mode(), tags())));
  }

  void give_up(const std::string& why) {
    session_.drop_unanswered();
    fmt::print("{}; the message is taken back\n", in_options(why));
  }

  const ChatFlags& flags_;
  OpenedChat opened_;
  ModelEngine& engine_;
  Tokenizer tokenizer_;
  ConversationEngine conversation_;
  ChatSession session_;
  SamplingParams sampling_;
  Thinking thinking_;
  std::string last_stats_;
  bool quit_ = false;
};

}  // namespace

void add_chat_command(Options& command) {
  auto flags = std::make_shared<ChatFlags>();
  command.text("--system", flags->system, "System message");
  command.choice("--think", flags->think, all_thinking_names(), kThinkingNumbers,
                 "How hard to think before replies, as the model's prompt profile has it " +
                     efforts_by_profile() + "; /think changes it");
  flags->generation.ending.add_think_budget_to(command, "Tokens of reasoning at most");
  flags->generation.add_to(command);
  flags->generation.add_controls_in_content_to(command);
  flags->engine.add_to(command);
  flags->engine.add_prompt_profile_to(command);
  command.action([flags] { ChatLoop(*flags).run(); });
}

}  // namespace baleen
