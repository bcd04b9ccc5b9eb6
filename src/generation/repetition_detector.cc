#include "generation/repetition_detector.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "ops/sample/sample.h"

namespace baleen {

RepetitionDetector::RepetitionDetector(const RepetitionLimits& limits)
    : least_score_(static_cast<std::int32_t>(kWord * limits.min_tokens)),
      period_score_(static_cast<std::int32_t>(kWord * (limits.min_count - 1))),
      num_periods_(static_cast<std::size_t>(limits.max_period)) {
  const auto within = [](std::int64_t value, std::int64_t low, std::int64_t high) {
    BALEEN_CHECK_LE(low, value);
    BALEEN_CHECK_LE(value, high);
  };
  within(limits.min_tokens, 1, RepetitionLimits::kMaxTokens);
  within(limits.min_count, 2, RepetitionLimits::kMaxCount);
  within(limits.max_period, 1, RepetitionLimits::kMaxPeriod);
  restart();
}

void RepetitionDetector::restart() {
  recent_.assign(2 * num_periods_, kNoToken);  // equals no token
  scores_.assign(num_periods_ + 2, 0);
  next_ = scores_;
  oldest_ = 0;
}

bool RepetitionDetector::add(TokenId token, bool is_word) {
  const std::int32_t gain = is_word ? kWord : kSign;
  const TokenId* const window = recent_.data() + oldest_;
  const std::int32_t* const scores = scores_.data();
  std::int32_t* const next = next_.data();
  const auto longest = static_cast<std::int32_t>(num_periods_);
  std::int32_t furthest = -least_score_;         // of a score above what is wanted of it
  for (std::int32_t i = 1; i <= longest; ++i) {  // period longest + 1 - i
    const std::int32_t change = window[i - 1] == token ? gain : -kDifference;
    const std::int32_t kept = scores[i] + change;
    const std::int32_t left_out = scores[i - 1] + change - kDifference;  // of the period one longer
    const std::int32_t put_in = scores[i + 1] - kDifference;             // of the period one shorter
    const std::int32_t score = std::max(std::max(kept, left_out), std::max(put_in, 0));
    next[i] = score;
    furthest = std::max(furthest, score - std::max(least_score_, period_score_ * (longest + 1 - i)));
  }
  std::swap(scores_, next_);
  recent_[oldest_] = recent_[oldest_ + num_periods_] = token;
  oldest_ = (oldest_ + 1) % num_periods_;
  return furthest >= 0;
}

bool has_letter(std::string_view bytes) {
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    const auto byte = static_cast<unsigned char>(bytes[at]);
    if ((byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z')) return true;
    if (byte < 0xC3) continue;  // ASCII, the middle of a character, or punctuation of Latin-1
    // U+2000 to U+2FFF are punctuation, arrows, boxes and other signs; U+3000 to U+303F punctuation of CJK;
    // U+F000 and more private use and wide forms; pictures have four bytes.
    const auto second = at + 1 < bytes.size() ? static_cast<unsigned char>(bytes[at + 1]) : 0;
    if (byte != 0xE2 && byte < 0xEF && !(byte == 0xE3 && second == 0x80)) return true;
  }
  return false;
}

}  // namespace baleen
