/// `baleen parse-chat`: completions on standard input, the messages they mean on standard output; JSON lines.
#pragma once

namespace baleen {

class Options;

void add_parse_chat_command(Options& program);

}  // namespace baleen
