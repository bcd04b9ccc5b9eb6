/// Advice to the system on how files' maps will be read, so that it reads ahead where that helps and nowhere
/// else. It changes no bytes; where the system takes none, nothing happens.
#pragma once

#include <cstddef>
#include <span>

namespace baleen {

/// Single places, far from one another: a touched page brings no others along.
void expect_random_reads(std::span<const std::byte> mapped);

/// Soon: reading begins, and the caller does not wait for it.
void begin_reading(std::span<const std::byte> mapped);

/// Not again soon: the process gives the memory up. Of a file's map alone: other memory would become zeros.
void end_reading(std::span<const std::byte> mapped);

}  // namespace baleen
