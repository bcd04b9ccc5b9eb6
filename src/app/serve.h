/// `baleen serve`: the model behind HTTP, for chat clients and agents.
#pragma once

namespace baleen {

class Options;

void add_serve_command(Options& program);

}  // namespace baleen
