/// Which of the published releases a checkpoint is, or of which it is a variant.
/// (source: releases specification 1.1, 1.5, 9.A)
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "model/checkpoint_kind.h"

namespace baleen {

/// `V4-Flash-0731`, `V4-Pro with FP8 experts (a repack)`, `V4 of another geometry than Flash and Pro`; empty
/// for what is neither V4 nor V4.1. By all other findings of `kind`, and the sizes in `config`, an object;
/// never by the folder's name.
[[nodiscard]] Finding<std::string> published_release(const nlohmann::ordered_json& config,
                                                     const CheckpointKind& kind);

}  // namespace baleen
