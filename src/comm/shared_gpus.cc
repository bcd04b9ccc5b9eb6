#include "comm/shared_gpus.h"

#include <cstdlib>

namespace baleen {

void prepare_shared_gpus() {
  constexpr int kKeepWhatIsSet = 0;
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", kKeepWhatIsSet);
  ::setenv("CUDA_MODULE_LOADING", "EAGER", kKeepWhatIsSet);
}

}  // namespace baleen
