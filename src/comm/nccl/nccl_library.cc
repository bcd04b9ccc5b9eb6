#include "comm/nccl/nccl_library.h"

#include <dlfcn.h>

#include <string>

#include "base/error.h"

namespace baleen {
namespace {

constexpr const char* kFile = "libnccl.so.2";

/// Why it cannot be used; empty: it can.
std::string load(NcclLibrary& library) {
  void* const handle = dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return fmt::format(
        "NCCL: {} was not found ({}). It is NVIDIA's package libnccl2 (apt) or nvidia-nccl-cu13 (pip); put "
        "its "
        "folder into LD_LIBRARY_PATH, or do without: GPUs of one host exchange data over peer memory",
        kFile, dlerror());
  }
  std::string missing;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
    if (function == nullptr) missing = name;
  };
  find(library.get_version, "ncclGetVersion");
  find(library.get_unique_id, "ncclGetUniqueId");
  find(library.comm_init_rank, "ncclCommInitRank");
  find(library.comm_destroy, "ncclCommDestroy");
  find(library.comm_abort, "ncclCommAbort");
  find(library.comm_get_async_error, "ncclCommGetAsyncError");
  find(library.error_string, "ncclGetErrorString");
  find(library.group_start, "ncclGroupStart");
  find(library.group_end, "ncclGroupEnd");
  find(library.send, "ncclSend");
  find(library.receive, "ncclRecv");
  find(library.all_reduce, "ncclAllReduce");
  find(library.all_gather, "ncclAllGather");
  find(library.reduce_scatter, "ncclReduceScatter");
  if (missing.empty()) return "";
  return fmt::format("NCCL: {} has no function {}: it is too old; version 2.7 or later is needed", kFile,
                     missing);
}

/// What was found, and what is wrong with it.
struct Found {
  NcclLibrary library;
  std::string why_not = load(library);
};

const Found& found() {
  static const Found once;
  return once;
}

}  // namespace

void NcclLibrary::check(int result, const char* what) const {
  if (result != kSuccess) fail("{}: NCCL says '{}'", what, error_string(result));
}

int NcclLibrary::version() const {
  int version = 0;
  check(get_version(&version), "asking NCCL for its version");
  return version;
}

std::string nccl_version_text(int version) {
  // 2.9 and later: five digits; before, four.
  constexpr int kFirstOfFiveDigits = 10000, kHundred = 100;
  const int major = version >= kFirstOfFiveDigits ? version / kFirstOfFiveDigits : version / 1000;
  const int rest = version >= kFirstOfFiveDigits ? version % kFirstOfFiveDigits : version % 1000;
  return fmt::format("{}.{}.{}", major, rest / kHundred, rest % kHundred);
}

const std::string& why_not_nccl_library() { return found().why_not; }

const NcclLibrary& nccl() {
  if (!have_nccl()) fail("{}", why_not_nccl_library());
  return found().library;
}

}  // namespace baleen
