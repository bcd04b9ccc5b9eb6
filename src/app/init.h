/// `baleen init`: a random checkpoint of a known geometry.
#pragma once

namespace baleen {

class Options;

void add_init_command(Options& program);

}  // namespace baleen
