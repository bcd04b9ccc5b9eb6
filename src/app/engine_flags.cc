#include "app/engine_flags.h"

#include <algorithm>
#include <system_error>

#include "app/data_files.h"
#include "base/error.h"
#include "hardware/instruction_sets.h"
#include "ops/operation/variant.h"

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
  command
      .add_option(
          "--kernel", kernels,
          "Force a variant: OPERATION=VARIANT, or VARIANT for all operations (reference: plain loops, "
          "slow); repeatable. `bench --kernels` lists them")
      ->allow_extra_args(false);
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
  for (const std::string& kernel : kernels) options.forced_variants.push_back(parse_forced_variant(kernel));
  const auto is_cpu_variant = [](const ForcedVariant& forced) {
    return forced.variant == kSimdVariant || forced.variant == kReferenceVariant;
  };
  // `auto` chooses the CPU where an option exists on the CPU alone.
  const bool cpu_only =
      precision != "released" || std::ranges::any_of(options.forced_variants, is_cpu_variant);
  options.device = device_from_name(device == "auto" && cpu_only ? "cpu" : device);
  options.precision = *precision_from_name(precision);
  options.num_threads = threads;
  options.max_batch_tokens = chunk;
  options.cache_tokens = context;
  return options;
}

}  // namespace baleen
