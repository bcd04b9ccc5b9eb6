/// The commands of the program: one more is a file with a function declared here, and a row of the table in
/// commands.cc.
#pragma once

namespace baleen {

class Options;

/// Adds every command to the program, in the order of its help.
void add_commands(Options& program);

// Options and action of a command, in the file that bears its name.
void add_bench_command(Options& command);
void add_bench_train_command(Options& command);
void add_calibrate_command(Options& command);
void add_chat_command(Options& command);
void add_completions_command(Options& command);
void add_convert_command(Options& command);
void add_data_inspect_command(Options& command);
void add_data_pack_command(Options& command);
void add_encode_chat_command(Options& command);
void add_init_command(Options& command);
void add_inspect_command(Options& command);
void add_logits_command(Options& command);
void add_man_command(Options& command);
void add_notices_command(Options& command);
void add_parse_chat_command(Options& command);
void add_perplexity_command(Options& command);
void add_plan_command(Options& command);
void add_run_command(Options& command);
void add_serve_command(Options& command);
void add_simulate_command(Options& command);
void add_simulate_messages_command(Options& command);
void add_simulate_search_command(Options& command);
void add_simulate_serve_command(Options& command);
void add_simulate_train_command(Options& command);
void add_simulate_validate_command(Options& command);
void add_tokenize_command(Options& command);
void add_tokenizer_train_command(Options& command);
void add_train_command(Options& command);

}  // namespace baleen
