/// A GGUF model as a checkpoint in the released layout: the same names, shapes and, where a file has another
/// form, bytes that are made when they are needed.
///
///     blk.3.ffn_gate_exps.weight  MXFP4 [E, I, d]  layers.3.ffn.experts.N.w1.weight, .scale  exact
///     blk.3.attn_q_a.weight       Q8_0 [R_q, d]    layers.3.attn.wq_a.weight, .scale (kQ8)   exact
///                                 BF16             layers.3.attn.wq_a.weight                 as it lies
///                                 any other type   layers.3.attn.wq_a.weight, float32        exact
///     blk.43.nextn.eh_proj.weight [d, 2 d]         mtp.0.e_proj, mtp.0.h_proj
///     token_embd.weight           any type         embed.weight, BF16                        rounded
///     blk.0.ffn_gate_tid2eid      I32 [V, k]       layers.0.ffn.gate.tid2eid, I64            exact
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "checkpoint/checkpoint.h"
#include "checkpoint/gguf/gguf_model.h"
#include "model/checkpoint_kind.h"
#include "model/config.h"

namespace baleen {

struct GgufCheckpoint {
  std::string config_text;  ///< as config.json would be
  Checkpoint checkpoint;
  CheckpointKind kind;
};

/// Reads keys and headers. Throws `Error` as `gguf_config` and `parse_config` do. What cannot be computed as
/// it is stored is in `kind.why_not`, though it can be converted; tensors that no row of the table has are
/// there under their own names, for `mismatches`.
[[nodiscard]] GgufCheckpoint open_gguf(const std::filesystem::path& path);

}  // namespace baleen
