/// NCCL, found at run time: nothing here needs it to be built or to start. Prototypes of what is called,
/// as its version 2 has had them since 2.7.
#pragma once

#include <cstddef>
#include <string>

struct CUstream_st;
struct ncclComm;

namespace baleen {

struct NcclLibrary {
  struct UniqueId {
    char internal[128];
  };
  using Comm = ncclComm*;
  static constexpr int kSuccess = 0, kInProgress = 7;
  // ncclDataType_t, ncclRedOp_t
  static constexpr int kInt8 = 0, kFloat32 = 7, kBfloat16 = 9, kSum = 0;

  int (*get_version)(int* version) = nullptr;
  int (*get_unique_id)(UniqueId* id) = nullptr;
  int (*comm_init_rank)(Comm* comm, int num_ranks, UniqueId id, int rank) = nullptr;
  int (*comm_destroy)(Comm comm) = nullptr;
  int (*comm_abort)(Comm comm) = nullptr;
  int (*comm_get_async_error)(Comm comm, int* error) = nullptr;
  const char* (*error_string)(int result) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*send)(const void* from, std::size_t count, int type, int peer, Comm comm, CUstream_st* s) = nullptr;
  int (*receive)(void* to, std::size_t count, int type, int peer, Comm comm, CUstream_st* s) = nullptr;
  int (*all_reduce)(const void* from, void* to, std::size_t count, int type, int op, Comm comm,
                    CUstream_st* s) = nullptr;
  int (*all_gather)(const void* from, void* to, std::size_t count, int type, Comm comm,
                    CUstream_st* s) = nullptr;
  int (*reduce_scatter)(const void* from, void* to, std::size_t count, int type, int op, Comm comm,
                        CUstream_st* s) = nullptr;

  /// Throws `Error` with NCCL's words unless `result` is success.
  void check(int result, const char* what) const;
  /// As NCCL counts: 22803 is 2.28.3.
  [[nodiscard]] int version() const;
};

/// "2.28.3"
[[nodiscard]] std::string nccl_version_text(int version);

/// Why there is none that can be used, with how to get it; empty: there is one. Looks for it the first time.
[[nodiscard]] const std::string& why_not_nccl_library();
[[nodiscard]] inline bool have_nccl() { return why_not_nccl_library().empty(); }

/// Throws `Error` that says how to get it where it is missing or too old.
[[nodiscard]] const NcclLibrary& nccl();

}  // namespace baleen
