#include "app/open_model.h"

#include "app/option_names.h"
#include "base/error.h"
#include "drafts/heads/draft_heads.h"
#include "log/log.h"
#include "model/decoder_half.h"

namespace baleen {

void check_drafts(const CheckpointKind& kind, std::string_view option) {
  if (const std::string why = why_no_drafts(kind); !why.empty()) fail("{}: {}; leave it out", option, why);
}

void log_findings(const CheckpointKind& kind) {
  if (!kind.left_out.empty()) log_line("left unread: {}", left_out_text(kind.left_out));
  for (const std::string& sentence : kind.contradictions) log_line("{}", in_options(sentence));
}

void log_prompt_profile(const CheckpointKind& kind, const Tokenizer& tokenizer) {
  const auto& [profile, is_assumed] = kind.prompts;
  if (is_assumed && profile.value.format == PromptFormat::kV41) {
    log_line("prompt profile v4.1, {}", profile.evidence);
  } else if (is_assumed && kind.draft_head.value == DraftKind::kDspark) {
    log_line(
        "prompt profile preview, {}; V4-Flash-0731 and V4-Pro-0813 have official: --prompt-profile says "
        "which",
        profile.evidence);
  }
  const PromptRules& rules = prompt_rules(profile.value);
  if (!rules.system_token.empty() && !tokenizer.id_of(rules.system_token)) {
    log_line("prompt profile {}: the tokenizer has no token {}, which is spelled as text", rules.name,
             rules.system_token);
  }
}

std::unique_ptr<ModelEngine> open_model(ModelFolder folder, EngineOptions options) {
  const CheckpointKind kind = folder.kind;
  if (options.max_draft_tokens > 0)
    check_drafts(kind, fmt::format("--speculate {}", options.max_draft_tokens));
  std::unique_ptr<ModelEngine> engine = open_engine(std::move(folder), options);
  log_findings(kind);  // of several processes the first alone comes here
  log_bounded_replay(*engine);
  return engine;
}

void log_bounded_replay(const ModelEngine& engine) {
  const std::int64_t tokens = engine.options().bounded_replay_tokens;
  if (tokens == 0) return;
  const ModelConfig& config = engine.config();
  log_line(
      "baleen: --bounded-replay {0}: layers {1} to {2} compute the last {0} tokens of a prompt alone, an "
      "approximation",
      tokens, decoder_begin(config).value(), config.num_hidden_layers - 1);
}

void log_expert_transport(const ModelEngine& engine) {
  const EngineOptions& options = engine.options();
  const DeviceTraits device = device_traits(options.device, options.num_threads);
  const ExpertTransportTraits& transport = expert_transport(options.parallel, device);
  if (transport.for_one_rank) return;
  // NCCL is also taken because all messages go by it.
  const bool is_forced = options.parallel.expert_transport != ExpertTransport::kAutomatic &&
                         options.parallel.expert_transport != ExpertTransport::kNccl;
  log_line("baleen: experts of {} by {}{}: {}", to_text(options.parallel), transport.name,
           is_forced ? ", as --expert-transport says" : "", transport.moves);
}

}  // namespace baleen
