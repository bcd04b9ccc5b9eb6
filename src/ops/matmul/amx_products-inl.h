// FP8 and FP4 weights times rounded activations by AMX: a tile of 16 weight rows by 32 inputs times a tile of
// 32 inputs by up to 16 rows of activations. Included once per instruction set (Highway).
//
// The order of an output's sum, the same for every number of rows: a slice's 32 products are two chains of
// multiply-adds, of the even and the odd inputs, and their sum (numeric/tile_registers.h). The four slices of
// a block of 128 are added in turn, from zero, and the block enters the output by one multiply-add with its
// scale, in ascending order.
//
// `Tiles` executes the instructions: TileRegisters, or a test's own.

#if defined(BALEEN_OPS_MATMUL_AMX_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALEEN_OPS_MATMUL_AMX_PRODUCTS_INL_H_
#undef BALEEN_OPS_MATMUL_AMX_PRODUCTS_INL_H_
#else
#define BALEEN_OPS_MATMUL_AMX_PRODUCTS_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "ops/matmul/amx_activations-inl.h"
#include "ops/matmul/amx_few_rows-inl.h"
#include "ops/matmul/amx_many_rows-inl.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul/tile_rows-inl.h"

#if HWY_TARGET == HWY_AVX3

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {

template <WeightFormat kFormat, class Tiles>
struct AmxProducts {
  static void pack_row(const float* x, std::int64_t num_inputs, ActivationRounding rounding, float* packed) {
    pack_amx_row<kFormat>(x, num_inputs, rounding, packed);
  }

  static void run(const MatmulTile& tile) {
    if (tile.num_rows == 0 || tile.n_begin >= tile.n_end) return;
    if (tile.num_rows == 1) return AmxFewRows<kFormat, Tiles, 1>(tile).Run();
    if (tile.num_rows <= 4) return AmxFewRows<kFormat, Tiles, 4>(tile).Run();
    if (tile.num_rows <= 8) return AmxFewRows<kFormat, Tiles, 8>(tile).Run();
    if (tile.num_rows <= 16) return AmxFewRows<kFormat, Tiles, 16>(tile).Run();
    AmxManyRows<kFormat, Tiles> many(tile);
    for (std::int64_t m = 0; m < tile.num_rows; m += kMaxRows) {
      many.Run(m, std::min(m + kMaxRows, tile.num_rows));
    }
  }
};

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HWY_TARGET == HWY_AVX3

#endif  // BALEEN_OPS_MATMUL_AMX_PRODUCTS_INL_H_
