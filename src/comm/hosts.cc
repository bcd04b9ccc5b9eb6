#include "comm/hosts.h"

#include <algorithm>
#include <fstream>
#include <string>

#include "base/error.h"
#include "comm/meet.h"

namespace baleen {

HostIdentity host_identity() {
  constexpr const char* kBootId = "/proc/sys/kernel/random/boot_id";
  // Files of /proc have no size that could be mapped.
  std::string name;
  std::ifstream file(kBootId);
  if (!std::getline(file, name) || name.empty())
    fail("{}: expected the system's boot id, found nothing; is /proc mounted?", kBootId);
  HostIdentity identity;
  std::copy_n(name.begin(), std::min(name.size(), identity.bytes.size()), identity.bytes.begin());
  return identity;
}

std::vector<std::int64_t> hosts_of_ranks(Communicator& communicator, const RankGroup& everybody,
                                         const HostIdentity& own) {
  std::vector<HostIdentity> seen;
  std::vector<std::int64_t> hosts;
  for (const HostIdentity& one : tell_all(communicator, everybody, own)) {
    const auto found = std::ranges::find(seen, one);
    hosts.push_back(found - seen.begin());
    if (found == seen.end()) seen.push_back(one);
  }
  return hosts;
}

}  // namespace baleen
