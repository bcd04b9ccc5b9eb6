/// `baleen bench`: time of every operation against the limits of this machine.
#pragma once

namespace baleen {

class Options;

void add_bench_command(Options& program);

}  // namespace baleen
