#include "drafts/heads/draft_heads.h"

#include <algorithm>
#include <array>

#include "drafts/mtp/mtp_head.h"

namespace baleen {

const DraftHeadType* draft_head_of(const ModelConfig& config) {
  static constexpr std::array kHeads{&kMtpHead};
  const auto found =
      std::ranges::find_if(kHeads, [&](const DraftHeadType* head) { return head->is_in(config); });
  return found == kHeads.end() ? nullptr : *found;
}

}  // namespace baleen
