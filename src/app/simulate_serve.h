/// `baleen simulate serve`: what clients of a deployment will feel under a load, request by request.
#pragma once

namespace baleen {

class Options;

void add_simulate_serve_command(Options& simulate);

}  // namespace baleen
