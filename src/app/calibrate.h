/// `baleen calibrate`: a device profile of this machine.
#pragma once

namespace baleen {

class Options;

void add_calibrate_command(Options& program);

}  // namespace baleen
