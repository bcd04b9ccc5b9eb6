#include "rank_engine/rank_places.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"

namespace baleen {
namespace {

/// Of rank `rank`: how many ranks before it are on its host.
std::int64_t place_on_host(const std::vector<std::int64_t>& hosts, std::size_t rank) {
  return std::count(hosts.begin(), hosts.begin() + static_cast<std::ptrdiff_t>(rank), hosts[rank]);
}

}  // namespace

EngineOptions placed_on_gpus(EngineOptions options, const std::vector<std::int64_t>& hosts,
                             const std::vector<DeviceChoice>& gpus) {
  const std::int64_t num_ranks = std::ssize(hosts), num_hosts = std::ranges::max(hosts) + 1;
  const ExpertTransport transport = options.parallel.expert_transport;
  if (options.parallel.is_one_rank()) options.parallel.num_devices = num_ranks;
  if (num_hosts > 1) {
    if (options.messages == GpuMessages::kPeerMemory || transport == ExpertTransport::kPeerMemory) {
      fail(
          "the {} ranks are on {} hosts, which peer memory does not reach; NCCL does: leave out {} "
          "peer-memory",
          num_ranks, num_hosts,
          options.messages == GpuMessages::kPeerMemory ? "‹messages›" : "‹expert transport›");
    }
    options.messages = GpuMessages::kNccl;
  }
  if (std::ssize(options.rank_devices) == num_ranks) return options;
  const bool by_nccl = options.messages == GpuMessages::kNccl || transport == ExpertTransport::kNccl;
  const std::vector<DeviceChoice> list = options.rank_devices.empty() ? gpus : options.rank_devices;
  options.rank_devices.clear();
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    const bool shows_one = by_nccl && list.size() == 1;
    const std::int64_t place = shows_one ? 0 : place_on_host(hosts, rank);
    if (place >= std::ssize(list)) {
      fail(
          "{} processes were started on a host, and there are {} GPUs for them that reach each other: each "
          "rank needs one of its own; start fewer processes, or give ‹device› cpu",
          std::ranges::count(hosts, hosts[rank]), list.size());
    }
    options.rank_devices.push_back(list[static_cast<std::size_t>(place)]);
  }
  return options;
}

}  // namespace baleen
