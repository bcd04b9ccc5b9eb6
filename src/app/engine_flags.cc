#include "app/engine_flags.h"

#include <system_error>

#include "app/data_files.h"
#include "base/error.h"
#include "hardware/instruction_sets.h"

namespace baleen {
std::string default_model_folder() { return data_file("models/stories"); }

void add_model_option(CLI::App& command, std::string& model) {
  model = default_model_folder();
  command.add_option("--model,-m", model, "Folder with config.json, tokenizer.json and *.safetensors")
      ->capture_default_str();
}

void EngineFlags::add_to(CLI::App& command) {
  add_model_option(command, model);
  command
      .add_option("--precision", precision,
                  "exact: float32 throughout; bf16: BF16 activations; released: the released code's rounding")
      ->check(CLI::IsMember({"exact", "bf16", "released"}))
      ->capture_default_str();
  command
      .add_option("--device,-d", device,
                  "cpu, cuda or cuda:N (an NVIDIA Hopper GPU); auto: a GPU if there is one")
      ->capture_default_str();
  command.add_option("--threads,-t", threads, "Threads; 0: every processor")->capture_default_str();
  command.add_option("--chunk", chunk, "Prompt tokens a step")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command.add_option("--context", context, "Positions the cache holds; 0: the model's whole context")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command.add_option("--kernels", kernels, "best: SIMD; reference: plain loops (slow)")
      ->check(CLI::IsMember({"best", "reference"}))
      ->capture_default_str();
  command
      .add_option("--isa", instruction_set, "Widest instruction set to use, e.g. AVX2; best: the machine's")
      ->capture_default_str();
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
