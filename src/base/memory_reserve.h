/// Memory kept back for destructors that run because there was none.
///
/// Some destructors allocate (that of nlohmann::json does), and an exception that leaves a destructor ends
/// the program. So when an allocation fails while an exception is on its way, the reserve is given back to
/// the system and the allocation tried again; at any other time it fails as usual.
#pragma once

namespace baleen {

/// Fills the reserve, unless it is full or there is no memory for it, and watches over failing allocations
/// from then on. Called at the start, and again after each exception for want of memory. Any thread; never
/// throws.
void fill_memory_reserve() noexcept;

}  // namespace baleen
