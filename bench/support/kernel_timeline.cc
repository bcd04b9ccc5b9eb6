// When each kernel of a program began and ended, those of replayed graphs too: a library that the driver
// loads into any program.
//     CUDA_INJECTION64_PATH=.../libkernel_timeline.so KERNEL_TIMELINE=FILE program ...
// At the program's end FILE (otherwise kernel_timeline.csv) has a line for each kernel, in the order in which
// they ended up in CUPTI's buffers. Kernels overlap as they do without it: a step of 12 layers took 1,686
// instead of 1,677 us. scripts/print_timeline.py reads it.
#include <cupti.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

namespace {

#if CUPTI_API_VERSION >= 130000
using KernelRecord = CUpti_ActivityKernel10;
#else
using KernelRecord = CUpti_ActivityKernel9;
#endif

struct Kernel {
  std::uint32_t gpu;
  std::uint64_t begin_ns, end_ns;
  std::int64_t blocks, threads, shared_bytes;
  std::string name;
};

std::mutex mutex;             // CUPTI hands buffers over in a thread of its own
std::vector<Kernel> kernels;  // guarded by `mutex`

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
  constexpr std::size_t kBytes = std::size_t{8} << 20;
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(alignof(std::max_align_t), kBytes));
  *size = *buffer == nullptr ? 0 : kBytes;
  *most_records = 0;  // as many as fit
}

void CUPTIAPI take_buffer(CUcontext /*context*/, std::uint32_t /*stream*/, std::uint8_t* buffer,
                          std::size_t /*size*/, std::size_t filled) {
  const std::lock_guard lock(mutex);
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, filled, &record) == CUPTI_SUCCESS) {
    if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
    const auto& kernel = *reinterpret_cast<const KernelRecord*>(record);
    kernels.push_back({kernel.deviceId, kernel.start, kernel.end,
                       std::int64_t{kernel.gridX} * kernel.gridY * kernel.gridZ,
                       std::int64_t{kernel.blockX} * kernel.blockY * kernel.blockZ,
                       std::int64_t{kernel.staticSharedMemory} + kernel.dynamicSharedMemory,
                       kernel.name != nullptr ? kernel.name : ""});
  }
  std::free(buffer);
}

void write_kernels() {
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  const char* given = std::getenv("KERNEL_TIMELINE");
  const char* path = given != nullptr ? given : "kernel_timeline.csv";
  std::FILE* file = std::fopen(path, "w");
  if (file == nullptr) {
    std::fprintf(stderr, "kernel_timeline: cannot write %s\n", path);
    return;
  }
  std::fputs("gpu,begin_ns,end_ns,blocks,threads,shared_bytes,kernel\n", file);
  const std::lock_guard lock(mutex);
  for (const Kernel& kernel : kernels) {
    std::fprintf(file, "%u,%llu,%llu,%lld,%lld,%lld,%s\n", kernel.gpu,
                 static_cast<unsigned long long>(kernel.begin_ns),
                 static_cast<unsigned long long>(kernel.end_ns), static_cast<long long>(kernel.blocks),
                 static_cast<long long>(kernel.threads), static_cast<long long>(kernel.shared_bytes),
                 kernel.name.c_str());
  }
  const bool written = std::ferror(file) == 0;
  if (std::fclose(file) != 0 || !written) std::fprintf(stderr, "kernel_timeline: %s is not whole\n", path);
}

}  // namespace

/// The driver's call, before the program's first one to it.
extern "C" int InitializeInjection() {
  if (cuptiActivityRegisterCallbacks(give_buffer, take_buffer) != CUPTI_SUCCESS ||
      cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) != CUPTI_SUCCESS) {
    std::fputs("kernel_timeline: CUPTI does not watch kernels here; no timeline\n", stderr);
    return 0;
  }
  std::atexit(write_kernels);
  return 1;
}
