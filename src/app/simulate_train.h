/// `baleen simulate train`: time and memory of a step of training.
#pragma once

namespace baleen {

class Options;

void add_simulate_train_command(Options& simulate);

}  // namespace baleen
