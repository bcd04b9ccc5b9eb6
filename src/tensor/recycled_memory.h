/// Memory of large arrays that every step makes and gives up: blocks wait for the next array, because the
/// system's work for new pages takes longer than much of what is computed in them (a twentieth of a
/// training step on a virtual machine).
#pragma once

#include <cstddef>

namespace baleen {

/// At least `bytes`, of any content, aligned to 64 bytes; from 2 MiB on in huge pages where the system has
/// them. The smallest block that waits and is large enough and at most half as large again; otherwise new, in
/// place of the largest ones that wait, as many as it takes to hold a sixteenth more than was ever in use at
/// once. Throws std::bad_alloc. Threads may call it at once.
[[nodiscard]] void* take_recycled(std::size_t bytes);

/// A block of `take_recycled`, which then waits for the next array.
void give_back_recycled(void* block) noexcept;

}  // namespace baleen
