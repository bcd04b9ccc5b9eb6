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
#include "model/matrix_kind.h"

namespace baleen {

enum class Release : std::uint8_t { kUnknown, kV4, kV41 };
/// What predicts further tokens. `kUnknown`: tensors under `mtp.` that are neither head's, or both's.
enum class DraftKind : std::uint8_t { kNone, kMtp, kDspark, kUnknown };
/// `kPrefixed`: the released names behind "model.". `kTransformers`: module names of Hugging Face
/// transformers.
enum class TensorNames : std::uint8_t { kUnknown, kReleased, kPrefixed, kTransformers };

[[nodiscard]] std::string_view release_name(Release release);
[[nodiscard]] std::string_view draft_head_name(DraftKind head);
[[nodiscard]] std::string_view tensor_names_name(TensorNames names);

/// A fact, and the tensor or the field of config.json that says so.
template <class T>
struct Finding {
  T value{};
  std::string evidence;
};

/// Tensors that are there and not used.
struct LeftOut {
  std::string what;  ///< `DSpark draft head, mtp.0 to mtp.2`
  std::int64_t num_tensors = 0;
  std::int64_t bytes = 0;
};

struct CheckpointKind {
  Finding<Release> release;
  Finding<TensorNames> names;
  Finding<DraftKind> draft_head;
  std::int64_t num_draft_blocks = 0;  ///< MTP blocks or DSpark stages: what is there under "mtp.N."
  /// Of those, blocks that the engine can draft with: MTP blocks in the formats of the layers.
  std::int64_t num_usable_draft_blocks = 0;
  MatrixKind experts;        ///< of the layers
  MatrixKind dense;          ///< of the layers
  MatrixKind draft_experts;  ///< of the draft head
  Finding<bool> vision;
  std::vector<LeftOut> left_out;
  /// Why none of this can be run, without the folder's name, and what to do; empty: nothing here says so.
  /// Whether shapes fit the config is `mismatches`' question (tensor_table.h).
  std::string why_not;
};

/// Reads headers, no weights. `config_text`: config.json, of which few fields are looked at; text that is no
/// JSON object says nothing. Cost: one pass over the names, 0.1 s for Pro.
[[nodiscard]] CheckpointKind detect_kind(const Checkpoint& checkpoint, std::string_view config_text);

/// Why the engine does not draft with this checkpoint's head; empty where it can.
[[nodiscard]] std::string why_no_drafts(const CheckpointKind& kind);

/// `DSpark draft head, mtp.0 to mtp.2, 4,705 tensors, 10.9 GB; vision ...`; empty: everything is used.
[[nodiscard]] std::string left_out_text(const CheckpointKind& kind);

/// Whether a model with so many MTP blocks does without a tensor that later releases and Base have: draft
/// heads that are not run, copies of embedding and head under "mtp.N.", vision.
[[nodiscard]] bool is_left_out(std::string_view name, std::int64_t num_usable_draft_blocks);

}  // namespace baleen
