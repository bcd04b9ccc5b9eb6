/// `baleen simulate validate`: predicted against published figures.
#pragma once

namespace baleen {

class Options;

void add_simulate_validate_command(Options& simulate);

}  // namespace baleen
