/// `baleen train`: a run described by a file, from first weights to a model that can be served.
#pragma once

namespace baleen {

class Options;

void add_train_command(Options& program);

}  // namespace baleen
