#include "app/engine_flags.h"

#include <algorithm>
#include <sstream>
#include <system_error>

#include "app/data_files.h"
#include "app/option_ranges.h"
#include "app/options.h"
#include "app/plan_flags.h"
#include "base/error.h"
#include "base/quoted_text.h"
#include "hardware/instruction_sets.h"
#include "ops/operation/variant.h"

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
  command.text("--devices", devices,
               "GPUs of the ranks of a plan, one each, as 0,1; without a plan: --tp over all of them");
  command.integer("--threads,-t", threads, kThreadsOrAllRange, "Threads; 0: every processor");
  command.integer("--context", context, kPositionsRange,
                  "Positions the cache holds; 0: the model's whole context");
  command.bytes(
      "--gpu-weights-bytes", gpu_weight_bytes, kWeightBytesRange,
      "Most that weights take of the GPU's memory; routed experts beyond lie in pinned memory of the host. "
      "0: what is free");
  command.bytes("--host-experts-bytes", host_expert_bytes, kWeightBytesRange,
                "Most pinned memory that those experts take; 0: what they need");
  command.texts("--kernel", kernels,
                "Force a variant: OPERATION=VARIANT, or VARIANT for all operations (reference: plain loops, "
                "slow); may be repeated. `bench --kernels` lists them");
  command.text("--isa", instruction_set, "Widest instruction set to use, e.g. AVX2; best: the machine's");
  add_plan_options(command, parallel);
  experts.add_to(command);
}

namespace {

/// "0,1" as devices. Throws `Error` for what is no list of different GPUs that can be used.
std::vector<DeviceChoice> devices_from_list(const std::string& list) {
  std::vector<DeviceChoice> devices;
  std::istringstream numbers(list);
  for (std::string number; std::getline(numbers, number, ',');) {
    const DeviceChoice device = device_from_name("cuda:" + number);
    if (std::ranges::find(devices, device) != devices.end())
      fail("--devices {}: GPU {} twice", shortened_text(list), number);
    devices.push_back(device);
  }
  if (devices.empty() || list.ends_with(','))
    fail("--devices \"{}\": expected GPUs, as 0,1", shortened_text(list));
  return devices;
}

}  // namespace

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
  const bool cpu_only = precision != "released" || !parallel.is_one_rank() ||
                        std::ranges::any_of(options.forced_variants, is_cpu_variant);
  if (devices.empty()) {
    options.device = device_from_name(device == "auto" && cpu_only ? "cpu" : device);
  } else {
    if (device != "auto") fail("--device {} and --devices {}: give one of them", device, devices);
    options.rank_devices = devices_from_list(devices);
    options.device = options.rank_devices.front();
  }
  options.precision = *precision_from_name(precision);
  options.num_threads = threads;
  options.max_batch_tokens = chunk;
  options.parallel = parallel;
  experts.apply_to(options);
  if (const std::int64_t count = std::ssize(options.rank_devices); count > 1 && parallel.is_one_rank())
    options.parallel.num_devices = options.parallel.tp = count;
  options.cache_tokens = context;
  if (gpu_weight_bytes > 0) options.gpu_weight_bytes = gpu_weight_bytes;
  if (host_expert_bytes > 0) options.host_expert_bytes = host_expert_bytes;
  return options;
}

}  // namespace baleen
