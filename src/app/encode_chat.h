/// `baleen encode-chat`: messages on standard input, the prompt they make on standard output; JSON lines.
#pragma once

namespace CLI {
class App;
}

namespace baleen {

void add_encode_chat_command(CLI::App& app);

}  // namespace baleen
