#include "engine/engram_memory.h"

#include "engine/engine_limits.h"
#include "engram/engram_store.h"

namespace baleen {
namespace {

void set_place(MemoryPlan& plan, const EngramConfig& engram, const EngineOptions& options,
               EngramPlace place) {
  const DeviceTraits device = device_traits(options);
  const std::int64_t max_rows = device.padded_rows(buffered_rows(options));
  plan.engram_place = place;
  plan.engram_table_bytes = engram_table_bytes(engram);
  plan.engram_bytes = EngramStore::device_bytes(engram, place, max_rows);
  plan.host_engram_bytes = EngramStore::host_bytes(engram, place, max_rows);
  if (device.shares_host_memory) {
    // All of it is the host's.
    plan.engram_bytes += plan.host_engram_bytes;
    plan.host_engram_bytes = 0;
  }
  const bool is_on_device =
      place == EngramPlace::kDevice || (place == EngramPlace::kHost && device.shares_host_memory);
  if (is_on_device) plan.engram_bytes += plan.engram_table_bytes;
  if (place == EngramPlace::kHost && !is_on_device) plan.host_engram_bytes += plan.engram_table_bytes;
}

bool reads_tables(const RankConfig& rank) {
  for (std::int64_t block = 0; block < rank.num_layers(); ++block)
    if (rank.model().engram_table(rank.model_block(block))) return true;
  return false;
}

}  // namespace

void plan_engram(MemoryPlan& plan, const RankConfig& rank, const EngineOptions& options) {
  if (!reads_tables(rank)) return;
  const bool shares_host_memory = device_traits(options).shares_host_memory;
  EngramPlace place = shares_host_memory ? EngramPlace::kMapped : EngramPlace::kDisk;
  if (options.engram == EngramWish::kGpu && !shares_host_memory) place = EngramPlace::kDevice;
  if (options.engram == EngramWish::kHost) place = EngramPlace::kHost;
  set_place(plan, *rank.model().engram, options, place);
}

std::optional<Failure> place_engram(MemoryPlan& plan, const ModelConfig& config, const EngineOptions& options,
                                    std::int64_t free_device_bytes, std::int64_t free_host_bytes) {
  if (!plan.engram_place) return std::nullopt;
  MemoryPlan without = plan;
  set_place(without, *config.engram, options, EngramPlace::kDevice);
  const std::int64_t beside = without.total_bytes() - without.engram_table_bytes;
  const Result<EngramPlace> place =
      choose_engram_place(options.engram, {.table_bytes = without.engram_table_bytes,
                                           .shares_host_memory = device_traits(options).shares_host_memory,
                                           .free_device_bytes = free_device_bytes - beside,
                                           .free_host_bytes = free_host_bytes});
  if (!place) return Failure{place.error()};
  set_place(plan, *config.engram, options, place.value());
  return std::nullopt;
}

}  // namespace baleen
