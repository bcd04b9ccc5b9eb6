#include "ops/compressor/cuda/compressor_kernel.cuh"

namespace baleen::sm80 {

void compressor(const CompressorArgs& args, CudaContext& context) { compress_rows<false>(args, context); }

}  // namespace baleen::sm80
