/// `baleen convert`: other shards, other number formats.
#pragma once

namespace baleen {

class Options;

void add_convert_command(Options& program);

}  // namespace baleen
