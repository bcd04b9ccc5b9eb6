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
      by_kernels_(num_rows <= static_cast<double>(ExpertStore::kMaxRowsOfKernelCopies)),
      wait_(experts.block_bytes, experts.level, experts.disk, experts.computes) {
  if (experts.empty()) return;
  const ExpertCounts& counts = experts.counts;
  const auto num_experts = static_cast<double>(counts.num_to_choose_from());
  // Ranks leave to the host what is used least, each of its own: all of them that end of the list.
  const double num_ranks = num_experts / static_cast<double>(counts.num_experts);
  const double on_host = experts.on_host_of_a_block(), on_disk = experts.on_disk_of_a_block();
  const double rows = num_rows * static_cast<double>(counts.num_groups);
  const ExpertRouting routing(counts.num_to_choose_from(), num_chosen, zipf);
  const auto chosen_of_last = [&](double count) {
    return routing.distinct(num_experts - num_ranks * count, num_experts, rows) / num_ranks;
  };
  const double chosen = chosen_of_last(on_host + on_disk), on_all = routing.distinct(rows);
  from_disk_ = by_kernels_ ? chosen_of_last(on_disk) : on_disk;
  from_host_ = by_kernels_ ? chosen - from_disk_ : on_host;
  rows_of_expert_ = rows * static_cast<double>(num_chosen) / on_all;
  share_ = chosen / (on_all / num_ranks);
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
  if (ahead <= 0 || guessed_ <= 0) return wait_.seconds(from_host_, from_disk_, rows_of_expert_);
  // How many come in a step is spread as rare events are; what the time ahead does not allow is waited for.
  // Guesses wait for no disk.
  const double each = wait_.copy_seconds();
  const int most = static_cast<int>(from_host_ + 10 * std::sqrt(from_host_)) + 20;
  double sum = 0, probability = std::exp(-from_host_);
  for (int n = 0; n <= most; ++n) {
    if (n > 0) probability *= from_host_ / n;
    const double guessed = std::min(guessed_ * n, static_cast<double>(experts_.counts.num_slots));
    sum += probability * wait_.seconds(n - std::min(guessed, ahead / each), from_disk_, rows_of_expert_);
  }
  return sum;
}

void HostCopies::wait_for_background(OpTime& time, double start) {
  const double buffer_free_at = left_.size() < 2 ? 0 : left_[left_.size() - 2];
  // Over the link comes what a disk gives, too.
  double copying = bytes_of_a_block() / experts_.level.bytes_per_second;
  if (from_disk_ > 0) {
    copying = std::max(
        copying, from_disk_ * static_cast<double>(experts_.block_bytes) / experts_.disk->bytes_per_second);
  }
  link_free_at_ = std::max(link_free_at_, buffer_free_at) + copying;
  time.host_copy_seconds = std::max(0.0, link_free_at_ - start);
  if (time.host_copy_seconds > time.seconds) time.bound = Bound::kHostCopies;
  time.seconds += time.host_copy_seconds;
  left_.push_back(start + time.seconds);
}

}  // namespace baleen
