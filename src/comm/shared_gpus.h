/// Ranks that share a GPU.
#pragma once

namespace baleen {

/// Before the first call of CUDA in a process some of whose ranks will share a GPU: so many queues that none
/// of them waits in another's, and kernels loaded at start, because loading one waits for those that run.
/// Where the environment says otherwise, that counts.
void prepare_shared_gpus();

}  // namespace baleen
