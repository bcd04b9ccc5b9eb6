/// What a checkpoint is, by its files alone: which release, which draft head, which formats, under
/// which names, and what of it this program does not use. Every finding comes with what it was recognised by.
/// `inspect` prints it, `plan`, `run`, `serve` and `convert` act on it; nothing else looks at a file to
/// learn what it is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "model/config.h"
#include "model/finding.h"
#include "model/found_prompt_profile.h"
#include "model/matrix_kind.h"

namespace baleen {

enum class Release : std::uint8_t { kUnknown, kV4, kV41 };
/// `kPrefixed`: the released names behind "model.". `kTransformers`: module names of Hugging Face
/// transformers. `kGguf`: those of GGUF files.
enum class TensorNames : std::uint8_t { kUnknown, kReleased, kPrefixed, kTransformers, kGguf };

[[nodiscard]] std::string_view release_name(Release release);
[[nodiscard]] std::string_view draft_head_name(DraftKind head);
[[nodiscard]] std::string_view tensor_names_name(TensorNames names);

/// Tensors that are there and not used.
struct LeftOut {
  bool is_draft_head = false;
  bool is_vision = false;
  std::string what;  ///< `of the draft head DSpark, mtp.0 to mtp.2`
  std::int64_t num_tensors = 0;
  std::int64_t bytes = 0;
};

struct CheckpointKind {
  Finding<Release> release;
  /// `V4-Flash-0731`: the published release whose geometry, draft head, formats and encoder these are, or
  /// what they are a variant of.
  Finding<std::string> published;
  Finding<TensorNames> names;
  Finding<DraftKind> draft_head;
  Finding<std::int64_t> draft_blocks;  ///< MTP blocks or DSpark stages: what is there under "mtp.N."
  /// Of those, blocks that the engine can draft with: MTP blocks in formats that are read, be they others
  /// than the layers'.
  std::int64_t num_usable_draft_blocks = 0;
  MatrixKind experts;        ///< how the layers store routed experts
  MatrixKind dense;          ///< how the layers store all other matrices
  MatrixKind draft_experts;  ///< how the draft head stores experts
  MatrixKind draft_dense;    ///< the draft head's
  Finding<bool> vision;
  FoundPromptProfile prompts;
  std::vector<LeftOut> left_out;
  /// Where config.json says something else than the tensors, which decide: a sentence each.
  std::vector<std::string> contradictions;
  /// Why none of this can be run, without the folder's name, and what to do; empty: nothing here says so.
  /// Whether shapes fit the config is `mismatches`' question (tensor_table.h).
  std::string why_not;
  bool converts = false;  ///< `convert` reads it, whatever `why_not` says
};

/// Reads headers and the encoder beside them, no weights. `config_text`: config.json, of which few fields are
/// looked at; text that is no JSON object says nothing. Cost: one pass over the names, 0.1 s for Pro.
[[nodiscard]] CheckpointKind detect_kind(const Checkpoint& checkpoint, std::string_view config_text);

/// Whether the engine runs blocks of such a head.
[[nodiscard]] bool is_computed(DraftKind kind);

/// `of the draft head DSpark, mtp.0 to mtp.2, 4,705 tensors, 10.9 GB; vision ...`; empty: everything is used.
[[nodiscard]] std::string left_out_text(const std::vector<LeftOut>& parts);

/// Of a vision tower, what aligns it to the text model, image tokens, or a router's bias for those.
[[nodiscard]] bool is_vision_tensor(std::string_view name);

/// Of a block "mtp.N", whatever head it is of.
[[nodiscard]] bool is_draft_tensor(std::string_view name);

/// Whether a model with so many blocks of a draft head does without a tensor that releases have: further
/// blocks, copies of embedding and head under "mtp.N.", vision, scales for activations.
[[nodiscard]] bool is_left_out(std::string_view name, std::int64_t num_draft_blocks);

}  // namespace baleen
