#include "drafts/heads/draft_heads.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "drafts/mtp/mtp_head.h"

namespace baleen {
namespace {

/// A kind of head that checkpoints have.
struct KnownHead {
  DraftKind kind;
  const DraftHeadType* type;  ///< null: its tensors are known, its computation is not
};

constexpr std::array<KnownHead, 2> kHeads{{{DraftKind::kMtp, &kMtpHead}, {DraftKind::kDspark, nullptr}}};

}  // namespace

const DraftHeadType* draft_head_of(const ModelConfig& config) {
  const auto found = std::ranges::find_if(
      kHeads, [&](const KnownHead& head) { return head.type != nullptr && head.type->is_in(config); });
  return found == kHeads.end() ? nullptr : found->type;
}

std::string why_no_drafts(const CheckpointKind& kind) {
  if (kind.num_usable_draft_blocks > 0) return "";
  const DraftKind head = kind.draft_head.value;
  if (head == DraftKind::kNone) return "this checkpoint has no draft head";
  const auto known = std::ranges::find(kHeads, head, &KnownHead::kind);
  if (known == kHeads.end() || known->type == nullptr) {
    return fmt::format("this checkpoint's draft head is {}, which baleen does not compute yet",
                       draft_head_name(head));
  }
  return fmt::format(
      "this checkpoint's {} head is in other formats than its layers, and baleen does not draft with that "
      "yet",
      draft_head_name(head));
}

}  // namespace baleen
