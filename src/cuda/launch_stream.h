/// A stream on which kernels are launched, with what is known of their order.
#pragma once

#include "base/check.h"
#include "cuda/launch_order.h"

namespace baleen {

struct LaunchStream {
  CUstream_st* handle = nullptr;
  LaunchOrder* order = nullptr;  ///< null: nothing is known, so nothing may be read early
  bool starts_early = true;      ///< `DeviceTraits::starts_kernels_early`

  operator CUstream_st*() const { return handle; }

  /// Whether the kernel that is launched next, early, may do all of `accesses` before its wait.
  [[nodiscard]] bool is_settled(const Accesses& accesses) const {
    return order != nullptr && order->is_settled(handle, accesses);
  }
  /// For a kernel that in any case reads before its wait what earlier operations write, because a kernel of
  /// its own operation is before it: stops the program unless kernels of that operation alone may run when it
  /// begins.
  void expect_earlier_operations_done() const {
    BALEEN_CHECK(order == nullptr || order->earlier_operations_are_done(handle));
  }
};

}  // namespace baleen
