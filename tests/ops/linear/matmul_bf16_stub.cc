// Stands in for the BF16 kernels until they are in the tree: the reference, on the host.
#include "cuda/cuda_error.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul/matmul_bf16_sm90.h"

#include <cuda_runtime_api.h>

#include <vector>

namespace baleen {

void matmul_bf16_sm90(std::span<const MatmulBf16> products, CudaContext& context) {
  const auto fetch = [&](auto& host, const void* device) {
    check_cuda(cudaStreamSynchronize(context.stream), "running kernels");
    check_cuda(cudaMemcpy(host.data(), device, host.size() * sizeof(host[0]), cudaMemcpyDeviceToHost),
               "copying");
  };
  for (const MatmulBf16& product : products) {
    const std::int64_t num_rows = product.x.extent(0), num_inputs = product.x.extent(1);
    const std::int64_t num_outputs = product.weight->rows;
    std::vector<Bf16Bits> x_bits(static_cast<std::size_t>(num_rows * num_inputs));
    std::vector<Bf16Bits> w_bits(static_cast<std::size_t>(num_outputs * num_inputs));
    fetch(x_bits, product.x.address());
    fetch(w_bits, product.weight->data);
    std::vector<float> x, y(static_cast<std::size_t>(num_rows * num_outputs));
    for (const Bf16Bits bits : x_bits) x.push_back(bf16_to_float(bits));
    WeightMatrix weight = *product.weight;
    weight.data = reinterpret_cast<const std::byte*>(w_bits.data());
    matmul_ref(weight, {x.data(), {num_rows, num_inputs}}, ActivationRounding::kNone, false,
               {y.data(), {num_rows, num_outputs}});
    BALEEN_CHECK(product.y.element_type() == ElementType::kF32);
    check_cuda(cudaMemcpy(product.y.address(), y.data(), y.size() * sizeof(float), cudaMemcpyHostToDevice),
               "copying");
  }
}

}  // namespace baleen
