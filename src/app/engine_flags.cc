#include "app/engine_flags.h"

#include <system_error>

#include "app/data_files.h"
#include "app/option_ranges.h"
#include "app/options.h"
#include "base/error.h"
#include "hardware/instruction_sets.h"

namespace baleen {
std::string default_model_folder() { return data_file("models/stories"); }

void add_model_option(Options& command, std::string& model) {
  model = default_model_folder();
  command.path("--model,-m", model, "Folder with config.json, tokenizer.json and *.safetensors");
}

void EngineFlags::add_to(Options& command) {
  add_all_but_chunk_to(command);
  command.integer("--chunk", chunk, kStepTokensRange, "Prompt tokens a step");
}

void EngineFlags::add_all_but_chunk_to(Options& command) {
  add_model_option(command, model);
  command.choice("--precision", precision, {"exact", "bf16", "released"},
                 "exact: float32 throughout; bf16: BF16 activations; released: the released code's rounding");
  command.text("--device,-d", device,
               "cpu, cuda or cuda:N (an NVIDIA Hopper GPU); auto: a GPU if there is one");
  command.integer("--threads,-t", threads, kThreadsOrAllRange, "Threads; 0: every processor");
  command.integer("--context", context, kPositionsRange,
                  "Positions the cache holds; 0: the model's whole context");
  command.choice("--kernels", kernels, {"best", "reference"}, "best: SIMD; reference: plain loops (slow)");
  command.text("--isa", instruction_set, "Widest instruction set to use, e.g. AVX2; best: the machine's");
}

EngineOptions EngineFlags::options() const {
  if (std::error_code ignored; !std::filesystem::is_directory(model, ignored)) {
    fail("{}: no such folder; --model wants one with config.json, tokenizer.json and *.safetensors", model);
  }
  return options_without_model();
}

EngineOptions EngineFlags::options_without_model() const {
  limit_instruction_set(instruction_set);
  EngineOptions options;
  // `auto` chooses the CPU where an option exists on the CPU alone.
  const bool cpu_only = precision != "released" || kernels != "best";
  options.device = device_from_name(device == "auto" && cpu_only ? "cpu" : device);
  options.precision = *precision_from_name(precision);
  options.num_threads = threads;
  options.max_batch_tokens = chunk;
  options.cache_tokens = context;
  options.kernels = kernels == "reference" ? Kernels::kReference : Kernels::kBest;
  return options;
}

}  // namespace baleen
