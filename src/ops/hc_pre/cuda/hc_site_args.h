/// Arguments of the kernels of a hyper-connection site.
#pragma once

#include <cstdint>

#include "tensor/fp8_rows.h"

namespace baleen::BALEEN_ARCH {

struct HcSiteArgs {
  // Of the sublayer that is left; null where none is.
  const std::uint16_t* f = nullptr;  ///< [T, d]
  const float* left_post = nullptr;  ///< [T, 4]
  const float* left_comb = nullptr;  ///< [T, 4, 4]
  std::uint16_t* streams = nullptr;  ///< [T, 4, d], written where a sublayer is left
  // Of the one that is entered.
  const float* fn = nullptr;
  const float* base = nullptr;
  const float* scale = nullptr;
  float norm_eps = 0.0F;
  float hc_eps = 0.0F;
  int sinkhorn_iterations = 0;
  float* post = nullptr;            ///< [T, 4]
  float* comb = nullptr;            ///< [T, 4, 4]
  const float* incoming = nullptr;  ///< [T, 4] what the streams are summed up with; null: the site's own pre
  float* pre = nullptr;             ///< [T, 4] that one, which may be `incoming`; null: not kept
  // Its norm.
  const float* norm_weight = nullptr;  ///< [d]
  float rms_eps = 0.0F;
  std::uint16_t* y = nullptr;  ///< [T, d], rows y_stride apart
  std::int64_t y_stride = 0;
  Fp8Rows y_fp8;

  int num_rows = 0;
  int width = 0;
};

}  // namespace baleen::BALEEN_ARCH
