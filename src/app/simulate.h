/// `baleen simulate`: what a step of a deployment takes, before there is one.
#pragma once

namespace baleen {

class Options;

void add_simulate_command(Options& program);

}  // namespace baleen
