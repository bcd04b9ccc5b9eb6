#include "app/open_model.h"

#include "base/error.h"
#include "log/log.h"

namespace baleen {
namespace {

bool can_draft(const CheckpointKind& kind) { return kind.num_usable_draft_blocks > 0; }

}  // namespace

void check_drafts(const CheckpointKind& kind, std::string_view option) {
  if (!can_draft(kind)) fail("{}: {}; leave it out", option, why_no_drafts(kind));
}

std::int64_t possible_drafts(const CheckpointKind& kind, std::int64_t wanted) {
  if (wanted == 0 || can_draft(kind)) return wanted;
  if (kind.draft_head.value == DraftKind::kNone) check_drafts(kind, fmt::format("--speculate {}", wanted));
  log_line("--speculate {}: {}; going on without drafts", wanted, why_no_drafts(kind));
  return 0;
}

void log_left_out(const CheckpointKind& kind) {
  if (!kind.left_out.empty()) log_line("left out: {}", left_out_text(kind));
}

std::unique_ptr<ModelEngine> open_model(ModelFolder folder, EngineOptions options) {
  const CheckpointKind kind = folder.kind;
  const std::int64_t wanted = options.max_draft_tokens;
  if (kind.draft_head.value != DraftKind::kNone && !can_draft(kind)) options.max_draft_tokens = 0;
  if (options.max_draft_tokens > 0) check_drafts(kind, fmt::format("--speculate {}", wanted));
  std::unique_ptr<ModelEngine> engine = open_engine(std::move(folder), options);
  // Of several processes the first alone comes here.
  log_left_out(kind);
  static_cast<void>(possible_drafts(kind, wanted));
  return engine;
}

void log_expert_transport(const ModelEngine& engine) {
  const EngineOptions& options = engine.options();
  const ExpertTransportTraits& transport =
      expert_transport(options.parallel, device_traits(options.device, options.num_threads));
  if (transport.for_one_rank) return;
  // NCCL is also taken because all messages go by it.
  const bool is_forced = options.parallel.expert_transport != ExpertTransport::kAutomatic &&
                         options.parallel.expert_transport != ExpertTransport::kNccl;
  log_line("baleen: experts of {} by {}{}: {}", to_text(options.parallel), transport.name,
           is_forced ? ", as --expert-transport says" : "", transport.moves);
}

}  // namespace baleen
