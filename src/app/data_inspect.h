/// Lines of a table of what packed shards hold.
#pragma once

#include "training_data/shard_format.h"

namespace baleen {

/// The line of names above `print_data_totals`.
void print_data_head();
/// One line of the table; there is at least one token.
void print_data_totals(DataSplit split, const ShardTotals& totals);

}  // namespace baleen
