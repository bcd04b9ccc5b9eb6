#include "numeric/bf16.h"
#include "numeric/e4m3.h"
#include "numeric/e8m0.h"
#include "ops/engram/engram_lookup.h"

namespace baleen {

void engram_lookup_ref(const EngramLookupArgs& args) {
  const std::int64_t width = args.codes.extent(1);
  for (std::int64_t r = 0; r < args.rows.extent(0); ++r) {
    for (std::int64_t h = 0; h < args.rows.extent(1); ++h) {
      const std::int64_t row = args.rows(r, h);
      for (std::int64_t j = 0; j < width; ++j) {
        const float scale = e8m0_to_float(args.scales(row, j / kEngramScaleColumns));
        args.z(r, h * width + j) = round_bf16(e4m3_to_float(args.codes(row, j)) * scale);
      }
    }
  }
}

}  // namespace baleen
