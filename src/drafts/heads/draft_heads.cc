#include "drafts/heads/draft_heads.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "drafts/dspark/dspark_head.h"
#include "drafts/mtp/mtp_head.h"

namespace baleen {
namespace {

constexpr std::array<const DraftHeadType*, 2> kHeads{&kMtpHead, &kDsparkHead};

}  // namespace

const DraftHeadType* draft_head_of(const ModelConfig& config) {
  const auto found =
      std::ranges::find_if(kHeads, [&](const DraftHeadType* head) { return head->is_in(config); });
  return found == kHeads.end() ? nullptr : *found;
}

std::string why_no_drafts(const CheckpointKind& kind) {
  if (kind.num_usable_draft_blocks > 0) return "";
  const DraftKind head = kind.draft_head.value;
  if (head == DraftKind::kNone) return "this checkpoint has no draft head";
  if (!is_computed(head)) {
    return fmt::format("this checkpoint's draft head is {}, which baleen does not compute",
                       draft_head_name(head));
  }
  return fmt::format(
      "this checkpoint's {} head is in other formats than its layers, and baleen does not draft with that "
      "yet",
      draft_head_name(head));
}

}  // namespace baleen
