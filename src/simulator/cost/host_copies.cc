#include "simulator/cost/host_copies.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "moe/residence/expert_store.h"
#include "simulator/cost/time_model.h"

namespace baleen {

HostCopies::HostCopies(const HostExperts& experts, std::int64_t num_chosen, double num_rows, double zipf,
                       double guessed)
    : experts_(experts),
      num_rows_(num_rows),
      guessed_(guessed),
      by_kernels_(num_rows <= static_cast<double>(ExpertStore::kMaxRowsOfKernelCopies)) {
  if (experts.empty()) return;
  const ExpertCounts& counts = experts.counts;
  const auto num_experts = static_cast<double>(counts.num_to_choose_from());
  // Ranks leave to the host what is used least, each of its own: all of them that end of the list.
  const double num_ranks = num_experts / static_cast<double>(counts.num_experts);
  const double on_host = experts.of_a_block(), rows = num_rows * static_cast<double>(counts.num_groups);
  const ExpertRouting routing(counts.num_to_choose_from(), num_chosen, zipf);
  const double chosen = routing.distinct(num_experts - num_ranks * on_host, num_experts, rows) / num_ranks;
  copied_ = by_kernels_ ? chosen : on_host;
  share_ = chosen / (routing.distinct(rows) / num_ranks);
}

void HostCopies::add_to(OpTime& time, const GraphOp& op, double start) {
  if (op.name == "route") counted_block_ = kNone;
  if (experts_.empty() || op.name != "experts" || op.block >= experts_.counts.num_blocks) return;
  // Ranks run the shared expert by itself, behind the same router.
  if (std::exchange(counted_block_, op.block) == op.block) return;
  if (!by_kernels_) return wait_for_background(time, start);
  const double copying = seconds_left(come_at_ ? start - *come_at_ : 0);
  come_at_ = start + copying;
  const double products = std::max(time.compute_seconds, time.memory_seconds);
  const double hidden = num_rows_ > 1 ? std::min(copying, (1 - share_) * products) : 0;
  time.host_copy_seconds = copying - hidden;
  time.seconds += time.host_copy_seconds;
  if (copying > std::max(products, time.static_seconds)) time.bound = Bound::kHostCopies;
}

double HostCopies::seconds_left(double ahead) const {
  const double each = static_cast<double>(experts_.block_bytes) / experts_.level.kernel_bytes_per_second;
  if (ahead <= 0 || guessed_ <= 0) return copied_ * each;
  // How many come in a step is spread as rare events are; what the time ahead does not allow is waited for.
  const int most = static_cast<int>(copied_ + 10 * std::sqrt(copied_)) + 20;
  double sum = 0, probability = std::exp(-copied_);
  for (int n = 1; n <= most; ++n) {
    probability *= copied_ / n;
    const double guessed = std::min(guessed_ * n, static_cast<double>(experts_.counts.num_slots));
    sum += probability * ((n - guessed) * each + std::max(0.0, guessed * each - ahead));
  }
  return sum;
}

void HostCopies::wait_for_background(OpTime& time, double start) {
  const double buffer_free_at = left_.size() < 2 ? 0 : left_[left_.size() - 2];
  link_free_at_ =
      std::max(link_free_at_, buffer_free_at) + bytes_of_a_block() / experts_.level.bytes_per_second;
  time.host_copy_seconds = std::max(0.0, link_free_at_ - start);
  if (time.host_copy_seconds > time.seconds) time.bound = Bound::kHostCopies;
  time.seconds += time.host_copy_seconds;
  left_.push_back(start + time.seconds);
}

}  // namespace baleen
