/// `baleen data inspect`: what packed shards hold, as a table with samples or as JSON.
#pragma once

#include "training_data/shard_format.h"

namespace baleen {

class Options;

void add_data_inspect_command(Options& group);

/// The line of names above `print_data_totals`.
void print_data_head();
/// One line of the table; there is at least one token.
void print_data_totals(DataSplit split, const ShardTotals& totals);

}  // namespace baleen
