/// `baleen inspect`: what a checkpoint folder holds.
#pragma once

namespace baleen {

class Options;

void add_inspect_command(Options& program);

}  // namespace baleen
