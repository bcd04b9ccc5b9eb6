/// Engines of checkpoint folders, for every command that runs one: what of a checkpoint is not used is said
/// here.
#pragma once

#include <memory>
#include <string_view>

#include "model/model_folder.h"
#include "rank_engine/rank_engine.h"
#include "tokenizer/tokenizer.h"

namespace baleen {

/// `open_engine`; then what `log_findings` and `log_bounded_replay` say. Throws `Error`, also where drafts
/// are wanted of a checkpoint whose draft head is none that the engine computes.
[[nodiscard]] std::unique_ptr<ModelEngine> open_model(ModelFolder folder, EngineOptions options);

/// Throws `Error` where the checkpoint's draft head is none that the engine computes. `option`: what requires
/// drafts.
void check_drafts(const CheckpointKind& kind, std::string_view option);

/// Says on standard error which layers compute a part of prompts alone; nothing where all compute all.
void log_bounded_replay(const ModelEngine& engine);

/// Lines on standard error: what is left unread, and where config.json says something else than the tensors.
void log_findings(const CheckpointKind& kind);

/// For commands that make prompts, once the engine is open: a line on standard error where the checkpoint's
/// prompt profile is a guess that may be wrong, and where the tokenizer lacks a token that it writes.
void log_prompt_profile(const CheckpointKind& kind, const Tokenizer& tokenizer);

/// Says on standard error by which transport the engine's ranks reach their experts; nothing where a
/// rank has all of them.
void log_expert_transport(const ModelEngine& engine);

}  // namespace baleen
