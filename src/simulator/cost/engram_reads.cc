#include "simulator/cost/engram_reads.h"

#include <algorithm>
#include <cmath>

#include "engram/engram_reader.h"
#include "ops/engram/engram_lookup.h"
#include "simulator/cost/time_model.h"

namespace baleen {
namespace {

/// Codes and scales are two tensors.
constexpr double kReadsOfARow = 2;
/// A read of any size brings a page.
constexpr double kPageBytes = 4096;
/// What a disk takes for as many reads as are under way together, however few bytes: with 48 of them 500,000
/// reads a second (docs/engram.md). Assumed; profiles say nothing of it.
constexpr double kRoundSeconds = 96e-6;

}  // namespace

EngramReads::EngramReads(const ModelConfig& config, const RankMemory& memory, const DeviceProfile& device) {
  if (memory.engram_place != EngramPlace::kHost && memory.engram_place != EngramPlace::kDisk) return;
  place_ = memory.engram_place;
  const std::int64_t width = config.engram->head_dim;
  row_bytes_ = static_cast<double>(width + (width + kEngramScaleColumns - 1) / kEngramScaleColumns);
  rows_of_token_ = static_cast<double>(config.engram->num_hashes());
  bytes_per_second_ = device.memory_levels.front().kernel_bytes_per_second;
  if (place_ == EngramPlace::kHost) return;
  seconds_of_a_round_ = std::max(
      kRoundSeconds, EngramReader::kReads * kPageBytes / device.memory_levels.at(1).bytes_per_second);
}

void EngramReads::add_to(OpTime& time, const GraphOp& op) const {
  if (!place_ || op.name != ops::EngramLookup::kName) return;
  const double coming = seconds(op.num_rows * rows_of_token_);
  const double work = std::max(time.compute_seconds, time.memory_seconds);
  time.host_copy_seconds = place_ == EngramPlace::kHost ? std::max(0.0, coming - work) : coming;
  time.seconds += time.host_copy_seconds;
  if (coming > std::max(work, time.static_seconds)) time.bound = Bound::kHostCopies;
}

double EngramReads::seconds(double num_rows) const {
  if (place_ == EngramPlace::kHost) return num_rows * row_bytes_ / bytes_per_second_;
  return std::ceil(num_rows * kReadsOfARow / EngramReader::kReads) * seconds_of_a_round_;
}

}  // namespace baleen
