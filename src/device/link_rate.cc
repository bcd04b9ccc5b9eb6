#include "device/link_rate.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>

#include "device/device.h"
#include "tensor/buffer.h"

namespace baleen {

double measured_link_rate(Device& device) {
  constexpr std::int64_t kBytes = std::int64_t{256} << 20;
  BackgroundCopies* copies = device.background_copies();
  if (copies == nullptr || device.free_bytes() < 2 * kBytes) return 0;
  const Buffer there(kBytes, device.memory()), here(kBytes, device.host_visible_memory());
  std::array<double, 5> seconds{};
  for (double& one : seconds) {
    const auto start = std::chrono::steady_clock::now();
    copies->start(there.data(), here.data(), kBytes);
    copies->set_mark(0);
    copies->wait_for(0);
    one = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  std::ranges::sort(seconds);
  return static_cast<double>(kBytes) / seconds[seconds.size() / 2];
}

}  // namespace baleen
