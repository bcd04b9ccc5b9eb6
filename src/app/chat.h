/// `baleen chat`: a conversation in the terminal.
#pragma once

namespace baleen {

class Options;

void add_chat_command(Options& program);

}  // namespace baleen
