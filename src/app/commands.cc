#include "app/commands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <string>
#include <vector>

#include "app/options.h"

namespace baleen {
namespace {

struct Command {
  const char* group;  ///< the command that this one stands under; empty: the program
  const char* name;
  const char* text;
  void (*add)(Options& command);  ///< its options and action; null: it holds commands and nothing else
};

/// In the order of the help; a group stands before its commands.
constexpr Command kCommands[] = {
    {"", "run", "Continue a prompt, or answer it with --chat", add_run_command},
    {"", "chat", "A conversation in the terminal", add_chat_command},
    {"", "serve", "Serve the model: OpenAI and Anthropic APIs, and a chat page", add_serve_command},
    {"", "bench", "Time of every operation against this machine's measured limits", add_bench_command},
    {"bench", "train", "Time of each part of a training step, of a run's file", add_bench_train_command},
    {"", "calibrate",
     "Measure this machine with the engine's own kernels: a device profile for `baleen simulate`",
     add_calibrate_command},
    {"", "plan", "Memory a model takes on a device, before anything is loaded", add_plan_command},
    {"", "simulate", "Time, memory and throughput of a deployment, before there is one",
     add_simulate_command},
    {"simulate", "messages",
     "What messages between ranks take: all-reduces by size, a layer's tokens to experts and back",
     add_simulate_messages_command},
    {"simulate", "search", "All legal plans and batch sizes of so many devices, ranked",
     add_simulate_search_command},
    {"simulate", "serve", "Requests that come and wait, and what their clients feel",
     add_simulate_serve_command},
    {"simulate", "train", "Time and memory of a step of training", add_simulate_train_command},
    {"simulate", "validate", "What others published, and what the simulator says",
     add_simulate_validate_command},
    {"", "inspect",
     "What a checkpoint is and holds: release, draft head, formats, layers, parameters, bytes and KV sizes, "
     "and where config and tensors disagree",
     add_inspect_command},
    {"", "init", "Write a random checkpoint in the released layout", add_init_command},
    {"", "convert", "Write a checkpoint anew: other shards, other number formats, verified",
     add_convert_command},
    {"", "tokenizer", "Make a tokenizer", nullptr},
    {"tokenizer", "train", "Learn a vocabulary from text: byte-level BPE in the V4 format",
     add_tokenizer_train_command},
    {"", "data", "Pack text for training, and look at packed text", nullptr},
    {"data", "pack", "Tokenise, shuffle and split a corpus into shards for training", add_data_pack_command},
    {"data", "inspect", "What a packed corpus holds", add_data_inspect_command},
    {"", "train", "Train a model as a file says, from first weights to a model to serve", add_train_command},
    {"", "perplexity", "Nats per token and bits per byte of a text", add_perplexity_command},
    {"", "logits", "Logits of every position of a token sequence", add_logits_command},
    {"", "tokenize", "Text to token ids and back, as JSON lines", add_tokenize_command},
    {"", "encode-chat", "Render conversations to prompts, one JSON object a line", add_encode_chat_command},
    {"", "parse-chat", "Parse completions to messages, one JSON object a line", add_parse_chat_command},
    {"", "completions", "Completions for a shell, on standard output", add_completions_command},
    {"", "man", "The manual page, on standard output", add_man_command},
    {"", "notices", "Licences of the libraries that program and page contain", add_notices_command},
};

[[noreturn]] void expect_command_of(const std::string& group) {
  std::vector<std::string> names;
  for (const Command& command : kCommands) {
    if (command.group == group) names.emplace_back(command.name);
  }
  usage_error("{}: expected a command: {}", group, fmt::join(names, " or "));
}

}  // namespace

void add_commands(Options& program) {
  std::map<std::string, Options> groups{{"", program}};
  for (const auto& [group, name, text, add] : kCommands) {
    Options command = groups.at(group).command(name, text);
    if (add != nullptr) {
      add(command);
    } else {
      command.action([group = std::string(name)] { expect_command_of(group); });
    }
    if (std::string_view(group).empty()) groups.emplace(name, command);
  }
}

}  // namespace baleen
