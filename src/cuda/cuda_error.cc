#include "cuda/cuda_error.h"

#include <fmt/format.h>

namespace baleen {
namespace {

bool is_sticky(cudaError_t status) {
  switch (status) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorHardwareStackError:
    case cudaErrorECCUncorrectable:
    case cudaErrorDevicesUnavailable:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

}  // namespace

void check_cuda(cudaError_t status, const char* what, std::source_location where) {
  if (status == cudaSuccess) return;
  const std::string text = fmt::format("{}: CUDA says '{}' ({}, at {}:{})", what, cudaGetErrorString(status),
                                       cudaGetErrorName(status), where.file_name(), where.line());
  if (is_sticky(status)) throw LostDevice(text + "; nothing works on this device any more, start again");
  static_cast<void>(cudaGetLastError());  // not sticky: the next call shall not find it
  throw Error(text);
}

}  // namespace baleen
