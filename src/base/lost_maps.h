/// Maps of files that shrink, or whose disk fails, while they are read. The system then sends SIGBUS to the
/// reader; here the map becomes zeros instead, the reader goes on, and whoever is about to publish a result
/// looks here first.
#pragma once

#include <cstddef>

namespace baleen {

/// Guards a map until `forget_map`, unless some thousands are guarded already. The first call installs the
/// handler of SIGBUS. `path` is for the sentence. Thread-safe.
void guard_map(const void* data, std::size_t size, const char* path);
/// Before the map is removed.
void forget_map(const void* data);

/// Throws `LostDevice` with a sentence that names the file when any map has been lost since the program
/// began: what was computed since then may be wrong. One atomic load otherwise.
void check_maps();

}  // namespace baleen
