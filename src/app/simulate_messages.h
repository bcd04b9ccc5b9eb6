/// `baleen simulate messages`: what messages between the ranks of a plan take, one by one.
#pragma once

namespace baleen {

class Options;

void add_simulate_messages_command(Options& simulate);

}  // namespace baleen
