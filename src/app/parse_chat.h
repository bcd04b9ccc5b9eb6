/// `baleen parse-chat`: completions on standard input, the messages they mean on standard output; JSON lines.
#pragma once

namespace CLI {
class App;
}

namespace baleen {

void add_parse_chat_command(CLI::App& app);

}  // namespace baleen
