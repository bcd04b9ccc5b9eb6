/// One rank's end of NCCL communicators, a communicator for each group of ranks that exchanges data by it.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "comm/nccl/nccl_library.h"

namespace baleen {

class NcclRank {
 public:
  /// `host`: over which a group's first rank gives the others what they need to meet; outlives this. Throws
  /// `Error` where there is no NCCL.
  explicit NcclRank(Communicator& host) : host_(host), library_(nccl()) {}
  NcclRank(const NcclRank&) = delete;
  NcclRank& operator=(const NcclRank&) = delete;
  ~NcclRank();

  /// All members call it, on threads of their own whose GPU is current; not while a graph is captured.
  void join(const RankGroup& group);

  /// Queues on `stream` what `Communicator::exchange` does, but for the rank's own part. The group has been
  /// joined.
  void exchange(const RankGroup& group, std::span<const std::span<const std::byte>> send,
                std::span<const std::span<std::byte>> receive, CUstream_st* stream) const;

  /// Of a group that was joined.
  [[nodiscard]] NcclLibrary::Comm comm(const RankGroup& group) const;
  [[nodiscard]] const NcclLibrary& library() const { return library_; }

 private:
  Communicator& host_;
  const NcclLibrary& library_;
  std::map<std::vector<std::int64_t>, NcclLibrary::Comm> comms_;  ///< by ranks
};

}  // namespace baleen
