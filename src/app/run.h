/// `baleen run`: one prompt, one reply.
#pragma once

namespace baleen {

class Options;

void add_run_command(Options& program);

}  // namespace baleen
