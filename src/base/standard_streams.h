/// Standard input, output and error as the process finds them: closed, full, or pipes that are not read.
#pragma once

#include <cstdio>
#include <string_view>

#include "base/error.h"

namespace baleen {

/// What a command writes can no longer be written: a full disk, or a reader that has left.
class LostOutput : public Error {
 public:
  using Error::Error;
};

/// Opens each of the descriptors 0 to 2 that is closed, so that no file or socket gets its number and
/// receives what was meant for a stream. Reads and writes of such a stand-in fail, as they did before. Called
/// first in `main`.
void reserve_standard_streams();

/// Writes as far as that is possible; failures are ignored. Waits where a pipe is full.
void write_if_possible(int descriptor, std::string_view text) noexcept;
inline void write_standard_error(std::string_view text) noexcept { write_if_possible(2, text); }

/// Writes out what `file` still holds in its buffer. Throws `LostOutput`, also for writes that failed before.
void flush_checked(std::FILE* file);

/// Whether standard output is a pipe or socket whose other end is closed, as after `baleen bench | head -1`.
[[nodiscard]] bool output_reader_left() noexcept;

}  // namespace baleen
