/// Whether kernels may use AMX: products of tiles of BF16 values (Sapphire Rapids and later). Results differ
/// in the last bits from those of other instructions.
#pragma once

namespace baleen {

/// This machine has them, with all that `machine_has_bf16_dots` says, and this process may use them: Linux
/// gives a process their registers when it asks, which the first call does.
[[nodiscard]] bool machine_has_bf16_tiles();

/// Whether kernels may use them from now on; at first they may. Not while kernels run.
void allow_bf16_tiles(bool allowed);
[[nodiscard]] bool bf16_tiles_allowed();

/// Whether kernels for AVX-512 use them now.
[[nodiscard]] bool uses_bf16_tiles();

}  // namespace baleen
