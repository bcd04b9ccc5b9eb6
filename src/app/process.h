/// What holds for every command: its standard streams, its signals, and how an exception becomes an exit
/// status.
#pragma once

namespace baleen {

/// First in `main`. Closed standard streams get stand-ins; a reader that leaves and a file that may not grow
/// become failures of the write (EPIPE, EFBIG) instead of signals that end the process.
void prepare_process();

/// Within a catch block of `main`: says on standard error what happened and returns 1. Where the reader of
/// standard output has left, ends the process by SIGPIPE without a word, as other programs end in a pipe.
[[nodiscard]] int exit_status_of_exception();

}  // namespace baleen
