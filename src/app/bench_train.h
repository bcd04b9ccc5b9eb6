/// `baleen bench train`: where the time of a training step goes.
#pragma once

namespace baleen {

class Options;

/// Adds it to the commands of `bench`.
void add_bench_train_command(Options& bench);

}  // namespace baleen
