/// How likely drafts are accepted: from what became of earlier ones, and from what the draft head says.
///
/// All chances are of one draft given that those before it are accepted; their running product is the chance
/// that the chain comes that far.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace baleen {

/// Drafts of one request that steps have checked, older ones counting less.
struct DraftHistory {
  struct AtDepth {
    double num_checked = 0, num_accepted = 0;
  };
  std::vector<AtDepth> depths;  ///< empty before the first
};

/// What a step made of a chain of drafts.
struct CheckedDrafts {
  std::int64_t num_accepted = 0;
  bool was_refused = false;                ///< the draft behind those; otherwise nothing is known of it
  std::span<const float> confidence = {};  ///< a logit of each draft; empty where the head tells none
};

/// What a head says with a confidence, as it says it.
[[nodiscard]] double stated_chance(double logit);

class DraftAcceptance {
 public:
  explicit DraftAcceptance(std::int64_t most_drafts)
      : of_all_(static_cast<std::size_t>(most_drafts)), scales_(static_cast<std::size_t>(most_drafts)) {}

  void see(DraftHistory& record, const CheckedDrafts& drafts);

  /// Of a request's next draft at that depth: its own record, where it is short that of all requests.
  [[nodiscard]] double chance(const DraftHistory& record, std::int64_t depth) const;
  /// The same where the draft's confidence is known: the sigmoid of logit / temperature, where the
  /// temperature of each depth is learned from what was accepted.
  [[nodiscard]] double chance(float confidence, std::int64_t depth) const;
  [[nodiscard]] double temperature(std::int64_t depth) const {
    return 1 / scales_[static_cast<std::size_t>(depth)].inverse_temperature;
  }

 private:
  struct Scale {
    double inverse_temperature = 1;
    double curvature = 4;  ///< the likelihood's; this is that of about 16 drafts with logits of 1
  };
  void calibrate(Scale& scale, double logit, bool accepted);

  std::vector<DraftHistory::AtDepth> of_all_;
  std::vector<Scale> scales_;
};

}  // namespace baleen
