#include "simulator/cost/expert_wait.h"

#include <algorithm>
#include <cmath>

namespace baleen {

ExpertWait::ExpertWait(std::int64_t block_bytes, const MemoryLevel& host,
                       const std::optional<MemoryLevel>& disk, bool computes)
    : bytes_(static_cast<double>(block_bytes)),
      host_(host),
      disk_(disk),
      computes_(computes && host.compute.any()) {}

double ExpertWait::split_seconds(std::int64_t num_computed, std::int64_t num_copied, double num_on_disk,
                                 double rows) const {
  const HostCompute& compute = host_.compute;
  const double on_cores = static_cast<double>(num_computed) + num_on_disk;
  const bool both = num_copied > 0;
  const double copies =
      static_cast<double>(num_copied) * bytes_ /
      (on_cores > 0 ? compute.copies_beside_bytes_per_second : host_.kernel_bytes_per_second);
  if (on_cores == 0) return copies;
  const double each = bytes_ / (both ? compute.beside_copies_bytes_per_second : compute.bytes_per_second) +
                      std::max(0.0, rows - 1) * compute.row_seconds;
  return std::max(compute.hand_over_seconds + read_seconds(num_on_disk) + on_cores * each, copies);
}

double ExpertWait::read_seconds(double num_on_disk) const {
  return num_on_disk > 0 ? num_on_disk * bytes_ / disk_->kernel_bytes_per_second : 0;
}

ExpertWait::Split ExpertWait::best_split(std::int64_t num_on_host, double num_on_disk, double rows) const {
  Split best{.seconds = split_seconds(0, num_on_host, num_on_disk, rows)};
  for (std::int64_t count = 1; count <= num_on_host; ++count) {
    const double seconds = split_seconds(count, num_on_host - count, num_on_disk, rows);
    if (seconds < best.seconds) best = {count, seconds};
  }
  return best;
}

std::int64_t ExpertWait::num_computed(std::int64_t num_on_host, double num_on_disk, double rows) const {
  return computes_ ? best_split(num_on_host, num_on_disk, rows).num_computed : 0;
}

double ExpertWait::seconds(double num_on_host, double num_on_disk, double rows) const {
  if (!computes_) return num_on_host * copy_seconds() + read_seconds(num_on_disk);
  const double below = std::floor(num_on_host), part = num_on_host - below;
  const auto whole = static_cast<std::int64_t>(below);
  const double low = best_split(whole, num_on_disk, rows).seconds;
  if (part <= 0) return low;
  return low + part * (best_split(whole + 1, num_on_disk, rows).seconds - low);
}

}  // namespace baleen
