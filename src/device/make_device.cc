#include "device/make_device.h"

#include <algorithm>

#include "base/error.h"
#include "base/number.h"
#include "base/quoted_text.h"
#include "device/cpu_device.h"
#include "tensor/captured_rows.h"
#ifdef BALEEN_CUDA
#include "device/cuda_device.h"
#endif

namespace baleen {
namespace {

constexpr std::int64_t kMostDevices = 1023;

#ifndef BALEEN_CUDA
[[noreturn]] void fail_without_cuda(const DeviceChoice& choice) {
  fail(
      "--device {}: this program was built without CUDA: build it where nvcc 12.3 or later is found, or use "
      "--device cpu",
      device_name(choice));
}
#endif

}  // namespace

DeviceChoice device_from_name(std::string_view name) {
  constexpr std::string_view kCudaPrefix = "cuda";
  if (name == "cpu") return {};
  if (name == "auto") {
#ifdef BALEEN_CUDA
    if (why_not_cuda(0).empty()) return {DeviceKind::kCuda, 0};
#endif
    return {};
  }
  DeviceChoice choice{DeviceKind::kCuda, 0};
  bool good = name.starts_with(kCudaPrefix);
  if (good && name != kCudaPrefix) {
    const std::string_view index = name.substr(kCudaPrefix.size());
    const Result<std::int64_t> number = read_whole(index.substr(1), {0, kMostDevices});
    good = index.starts_with(':') && number.ok();
    if (good) choice.index = static_cast<int>(number.value());
  }
  if (!good)
    fail("--device {}: there are cpu, cuda, cuda:N (the N-th GPU, from 0) and auto", shortened_text(name));
#ifdef BALEEN_CUDA
  if (const std::string why = why_not_cuda(choice.index); !why.empty()) fail("--device {}: {}", name, why);
  return choice;
#else
  fail_without_cuda(choice);
#endif
}

std::string device_name(const DeviceChoice& device) {
  return device.kind == DeviceKind::kCpu ? "cpu" : fmt::format("cuda:{}", device.index);
}

std::int64_t padded_rows(DeviceKind kind, std::int64_t num_rows) {
  if (kind == DeviceKind::kCpu || num_rows > kMaxGraphRows) return num_rows;
  std::int64_t bucket = 1;
  // Powers of two up to 32, then multiples of 32: a graph costs a megabyte or two, a row of padding next to nothing.
  constexpr std::int64_t kStep = 32;
  while (bucket < num_rows && bucket < kStep) bucket *= 2;
  return std::max(bucket, (num_rows + kStep - 1) / kStep * kStep * (num_rows > kStep ? 1 : 0));
}

std::int64_t scratch_bytes(DeviceKind kind, const StepShape& shape, int num_threads) {
  if (kind == DeviceKind::kCpu) return cpu_scratch_bytes(shape, num_threads);
#ifdef BALEEN_CUDA
  return cuda_scratch_bytes(shape);
#else
  return 0;
#endif
}

bool built_with_cuda() {
#ifdef BALEEN_CUDA
  return true;
#else
  return false;
#endif
}

DeviceCeilings measure_device_ceilings(const DeviceChoice& choice) {
  if (choice.kind == DeviceKind::kCpu)
    fail("device ceilings: only of CUDA devices; hardware/ measures the CPU's");
#ifdef BALEEN_CUDA
  return measure_cuda_ceilings(choice.index);
#else
  fail_without_cuda(choice);
#endif
}

std::unique_ptr<Device> make_device(const DeviceChoice& choice, const DeviceOptions& options) {
  if (choice.kind == DeviceKind::kCpu) {
    return std::make_unique<CpuDevice>(options.num_threads, options.scratch_bytes, options.kernels);
  }
#ifdef BALEEN_CUDA
  return std::make_unique<CudaDevice>(choice.index, options);
#else
  fail_without_cuda(choice);
#endif
}

}  // namespace baleen
