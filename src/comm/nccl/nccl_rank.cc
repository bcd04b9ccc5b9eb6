#include "comm/nccl/nccl_rank.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"

namespace baleen {

NcclRank::~NcclRank() {
  for (const auto& [ranks, comm] : comms_) static_cast<void>(library_.comm_destroy(comm));
}

void NcclRank::join(const RankGroup& group) {
  if (group.size() == 1 || comms_.contains(group.ranks)) return;
  NcclLibrary::UniqueId own{};
  if (group.place == 0) library_.check(library_.get_unique_id(&own), "starting NCCL");
  std::vector<NcclLibrary::UniqueId> ids(group.ranks.size());
  std::vector<std::span<const std::byte>> send;
  std::vector<std::span<std::byte>> receive;
  for (NcclLibrary::UniqueId& id : ids) {
    send.push_back(std::as_bytes(std::span(&own, 1)));
    receive.push_back(std::as_writable_bytes(std::span(&id, 1)));
  }
  host_.exchange(group, send, receive);
  NcclLibrary::Comm comm = nullptr;
  library_.check(library_.comm_init_rank(&comm, static_cast<int>(group.size()), ids.front(),
                                         static_cast<int>(group.place)),
                 "joining ranks by NCCL");
  comms_.emplace(group.ranks, comm);
}

NcclLibrary::Comm NcclRank::comm(const RankGroup& group) const {
  const auto found = comms_.find(group.ranks);
  if (found == comms_.end()) fail("NCCL: ranks {} have not been joined", fmt::join(group.ranks, ", "));
  return found->second;
}

void NcclRank::exchange(const RankGroup& group, std::span<const std::span<const std::byte>> send,
                        std::span<const std::span<std::byte>> receive, CUstream_st* stream) const {
  const NcclLibrary::Comm with = comm(group);
  library_.check(library_.group_start(), "exchanging by NCCL");
  for (std::size_t i = 0; i < group.ranks.size(); ++i) {
    if (i == static_cast<std::size_t>(group.place)) continue;
    const int member = static_cast<int>(i);
    if (!send[i].empty()) {
      library_.check(library_.send(send[i].data(), send[i].size(), NcclLibrary::kInt8, member, with, stream),
                     "sending by NCCL");
    }
    if (!receive[i].empty()) {
      library_.check(
          library_.receive(receive[i].data(), receive[i].size(), NcclLibrary::kInt8, member, with, stream),
          "receiving by NCCL");
    }
  }
  library_.check(library_.group_end(), "exchanging by NCCL");
}

}  // namespace baleen
