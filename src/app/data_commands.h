/// `baleen data pack` and `baleen data inspect`: text to the shards that training reads, and what they hold.
#pragma once

namespace baleen {

class Options;

/// `data` and its commands.
void add_data_command(Options& program);

}  // namespace baleen
