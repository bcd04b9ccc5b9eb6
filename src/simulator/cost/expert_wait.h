/// How long a layer waits for the experts that its tokens chose outside the device's memory, where copies and
/// the host's cores share them: of n experts on the host the cores compute c while the others are copied,
///
///     t(c) = max( hand_over + c x compute,  (n - c) x bytes / link )
///
/// and the engine takes the c that makes this least. `compute` is what an expert takes to be read, and its
/// further rows. While both run, cores and link reach less than alone. Experts on disk are read once, and
/// computed where they then are; without cores that compute, they are copied behind the others.
#pragma once

#include <cstdint>
#include <optional>

#include "hardware/device_profile.h"

namespace baleen {

class ExpertWait {
 public:
  /// Of experts of `block_bytes` bytes. `disk`: null where no expert lies there. Copies alone unless
  /// `computes`.
  ExpertWait(std::int64_t block_bytes, const MemoryLevel& host, const std::optional<MemoryLevel>& disk,
             bool computes);

  /// Of so many experts, `rows` tokens each; between whole numbers linear.
  [[nodiscard]] double seconds(double num_on_host, double num_on_disk, double rows) const;

  /// How many of `num_on_host` experts the cores compute, when as many as `num_on_disk` come from the disk.
  [[nodiscard]] std::int64_t num_computed(std::int64_t num_on_host, double num_on_disk, double rows) const;

  /// What the copy of one expert takes while no cores read.
  [[nodiscard]] double copy_seconds() const { return bytes_ / host_.kernel_bytes_per_second; }

 private:
  struct Split {
    std::int64_t num_computed = 0;
    double seconds = 0;
  };
  /// From the disk.
  [[nodiscard]] double read_seconds(double num_on_disk) const;
  [[nodiscard]] Split best_split(std::int64_t num_on_host, double num_on_disk, double rows) const;
  /// With so many computed and the others copied.
  [[nodiscard]] double split_seconds(std::int64_t num_computed, std::int64_t num_copied, double num_on_disk,
                                     double rows) const;

  double bytes_;
  MemoryLevel host_;
  std::optional<MemoryLevel> disk_;
  bool computes_;
};

}  // namespace baleen
