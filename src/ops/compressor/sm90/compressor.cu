#include "ops/compressor/cuda/compressor_kernel.cuh"

namespace baleen::sm90 {

void compressor(const CompressorArgs& args, CudaContext& context) { compress_rows<true>(args, context); }

}  // namespace baleen::sm90
