/// `baleen encode-chat`: messages on standard input, the prompt they make on standard output; JSON lines.
#pragma once

namespace baleen {

class Options;

void add_encode_chat_command(Options& program);

}  // namespace baleen
