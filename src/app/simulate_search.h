/// `baleen simulate search`: the best way to use so many devices, under limits of latency.
#pragma once

namespace baleen {

class Options;

void add_simulate_search_command(Options& simulate);

}  // namespace baleen
