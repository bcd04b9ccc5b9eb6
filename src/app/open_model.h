/// Engines of checkpoint folders, for every command that runs one: what of a checkpoint is not used is said
/// here.
#pragma once

#include <memory>
#include <string_view>

#include "model/model_folder.h"
#include "rank_engine/rank_engine.h"

namespace baleen {

/// `open_engine`; then lines on standard error: what of the checkpoint is left out, and, where drafts are
/// wanted and its head is none that the engine drafts with, that there are none. Throws `Error`, also where
/// drafts are wanted of a checkpoint without any head.
[[nodiscard]] std::unique_ptr<ModelEngine> open_model(ModelFolder folder, EngineOptions options);

/// For commands that have no use for an engine without drafts: throws `Error` where the checkpoint's head
/// is none that the engine drafts with. `option`: what requires them.
void check_drafts(const CheckpointKind& kind, std::string_view option);

/// `wanted`, or 0 with a line on standard error as in `open_model`.
[[nodiscard]] std::int64_t possible_drafts(const CheckpointKind& kind, std::int64_t wanted);

/// A line on standard error, if something is left out.
void log_left_out(const CheckpointKind& kind);

/// Says on standard error by which transport the engine's ranks reach their experts; nothing where a
/// rank has all of them.
void log_expert_transport(const ModelEngine& engine);

}  // namespace baleen
