#include "app/engine_flags.h"

#include <algorithm>
#include <set>
#include <sstream>

#include "app/data_files.h"
#include "app/option_names.h"
#include "app/option_ranges.h"
#include "app/options.h"
#include "app/plan_flags.h"
#include "app/simulation_flags.h"
#include "base/error.h"
#include "base/quoted_text.h"
#include "checkpoint/folder_check.h"
#include "checkpoint/gguf/gguf_model.h"
#include "comm/mpi/mpi_world.h"
#include "comm/shared_gpus.h"
#include "device/make_device.h"
#include "hardware/instruction_sets.h"
#include "log/log.h"
#include "ops/operation/variant.h"

namespace baleen {
std::string default_model_folder() { return data_file("models/stories"); }

void add_model_option(Options& command, std::string& model) {
  model = default_model_folder();
  command.path("--model,-m", model,
               "Folder with config.json, tokenizer.json and *.safetensors, or a GGUF file");
}

void add_engram_option(Options& command, EngramWish& engram) {
  command.choice("--engram", engram,
                 {{"auto", EngramWish::kAuto},
                  {"gpu", EngramWish::kGpu},
                  {"host", EngramWish::kHost},
                  {"disk", EngramWish::kDisk}},
                 "Where tables of n-grams lie (DeepSeek-V4.1): in the GPU's memory, in pinned memory of the "
                 "host, or on disk, where the rows of a step are read before it. auto: the nearest of these "
                 "with room beside all else; on a CPU the file's map");
}

void add_bounded_replay_option(Options& command, std::int64_t& tokens) {
  command.integer(
      "--bounded-replay", tokens, kTokensRange,
      "Compute the decoder half of a model that has one (DeepSeek-V4.1's layers 20 to 39) on so "
      "many last tokens of a prompt alone, as 128, and not at all on those before: nearly half of "
      "a prompt's work. An approximation (docs/bounded_replay.md); 0: on all tokens");
}

void EngineFlags::add_to(Options& command) {
  add_all_but_chunk_to(command);
  command.integer("--chunk", chunk, kStepTokensRange, "Prompt tokens a step");
}

void EngineFlags::add_prompt_profile_to(Options& command) {
  prompts.add_to(command,
                 "those of the encoder in the model's folder (encoding/encoding_dsv4.py), preview without "
                 "one; v4.1 where "
                 "config.json is its");
}

void EngineFlags::add_all_but_chunk_to(Options& command) {
  add_model_option(command, model);
  command.choice("--precision", precision, {"exact", "bf16", "released"},
                 "exact: float32 throughout; bf16: BF16 activations; released: the released code's rounding");
  command.text("--device,-d", device,
               "cpu, cuda or cuda:N (an NVIDIA GPU); auto: a GPU if there is one that can be used");
  command.text(
      "--arch", architecture,
      "Architecture whose kernels GPUs get, of those that run on them, as sm90; without it the best");
  command.text("--as-card", card,
               "Impose the traits of a card on GPUs, as rtx-3090 (`plan --help` lists them): its kernels, "
               "multiprocessors and shared memory; --gpu-weights-bytes imposes memory. For trying what runs "
               "there, not how fast");
  command.text("--devices", devices,
               "GPUs of the ranks of a plan, as 0,1; without a plan: --tp over all of them. Named twice, as "
               "0,0, a GPU runs two ranks: for trying plans, not for speed. Without this and --device: as "
               "many of the machine's GPUs as the simulator recommends");
  command.choice(
      "--messages", messages,
      {{"auto", GpuMessages::kAutomatic},
       {"peer-memory", GpuMessages::kPeerMemory},
       {"host-memory", GpuMessages::kHostMemory},
       {"nccl", GpuMessages::kNccl}},
      "How GPUs of several ranks exchange messages: through each other's memory, on one host; through the "
      "host's memory, between stages of a pipeline (--pp) whose GPUs have no access to each other's; or by "
      "NCCL. auto: NCCL where processes are on several hosts");
  command.integer("--threads,-t", threads, kThreadsOrAllRange, "Threads; 0: every processor");
  command.integer("--context", context, kPositionsRange,
                  "Positions the cache holds; 0: the model's whole context");
  command.bytes(
      "--gpu-weights-bytes", gpu_weight_bytes, kWeightBytesRange,
      "Most that weights take of the GPU's memory; beyond, the embedding and routed experts lie in pinned "
      "memory of the host. 0: what is free");
  command.bytes("--host-experts-bytes", host_expert_bytes, kWeightBytesRange,
                "Most pinned memory that these take, experts beyond are read from disk; 0: what they need");
  command.flag("--no-fetch-ahead", no_fetch_ahead,
               "Those experts come only when the router has chosen them, not by a guess before");
  command.choice("--host-experts", host_experts,
                 {{"auto", HostExpertsMode::kAuto},
                  {"fetch", HostExpertsMode::kFetch},
                  {"compute", HostExpertsMode::kCompute}},
                 "What becomes of chosen experts outside the GPU's memory: they are copied there, or the "
                 "host's cores compute some of them meanwhile, with the same bits wherever an expert lies. "
                 "auto: compute where that is measured to be faster");
  add_engram_option(command, engram);
  add_bounded_replay_option(command, bounded_replay);
  command.texts("--kernel", kernels,
                "Force a variant: OPERATION=VARIANT, or VARIANT for all operations (reference: plain loops, "
                "slow); may be repeated. `bench --kernels` lists them");
  command.text("--isa", instruction_set, "Widest instruction set to use, e.g. AVX2; best: the machine's");
  add_plan_options(command, parallel);
  command.integer(
      "--dbo-prompt-rows", overlap.least_prompt_rows, kRowsOrNeverRange,
      "With --dbo: steps with tokens of prompts are cut in two from so many rows on, of the rank that "
      "has most; 0: never");
  command.integer("--dbo-decode-rows", overlap.least_decode_rows, kRowsOrNeverRange,
                  "With --dbo: the same of steps without tokens of prompts");
  experts.add_to(command);
}

namespace {

/// "0,1" as devices. Throws `Error` for what is no list of GPUs that can be used.
std::vector<DeviceChoice> devices_from_list(const std::string& list, const GpuUse& use) {
  std::vector<std::string> numbers;
  std::istringstream text(list);
  for (std::string number; std::getline(text, number, ',');) numbers.push_back(number);
  if (numbers.empty() || list.ends_with(',') || list.find_first_not_of("0123456789,") != std::string::npos) {
    fail(
        "--devices \"{}\": expected numbers of GPUs, as 0,1; for ranks on CPUs leave it out, with --tp 2 or "
        "the like",
        shortened_text(list));
  }
  if (std::set<std::string>(numbers.begin(), numbers.end()).size() < numbers.size()) prepare_shared_gpus();
  std::vector<DeviceChoice> devices;
  devices.reserve(numbers.size());
  for (const std::string& number : numbers) devices.push_back(device_from_name("cuda:" + number, use));
  return devices;
}

/// Says what GPUs were found and what they will run, each kind once. Not where ranks are processes: their
/// GPUs may be other machines'.
void log_gpus(const EngineOptions& options) {
  if (is_mpi_process()) return;
  const std::vector<DeviceChoice> used =
      options.rank_devices.empty() ? std::vector<DeviceChoice>{options.device} : options.rank_devices;
  std::set<std::string> said;
  for (const DeviceChoice& device : used) {
    if (device.is_cpu()) continue;
    for (const std::string& line : {start_text(device), compilation_text(device)})
      if (!line.empty() && said.insert(line).second) log_line("{}", in_options(line));
  }
}

}  // namespace

bool EngineFlags::cpu_only() const {
  return precision != "released" || std::ranges::any_of(kernels, [](const std::string& kernel) {
           const ForcedVariant forced = parse_forced_variant(kernel);
           return forced.variant == kSimdVariant || forced.variant == kReferenceVariant;
         });
}

EngineOptions EngineFlags::options(const EnginePurpose& purpose) const {
  if (!find_gguf(model)) check_checkpoint_folder(model);
  return with_plan(purpose, [&] { return SimulatedModelFlags{.model = model}.load(); });
}

EngineOptions EngineFlags::options_of(const SimulatedModel& simulated, const EnginePurpose& purpose) const {
  return with_plan(purpose, [&] { return simulated; });
}

template <class LoadModel>
EngineOptions EngineFlags::with_plan(const EnginePurpose& purpose, const LoadModel& load) const {
  EngineOptions options = options_without_plan();
  const bool chooses = device == "auto" && devices.empty() && !cpu_only() && !is_mpi_process();
  if (chooses) {
    const GpuGroup gpus = usable_gpus(gpu_use());
    const bool alone = gpus.gpus.size() == 1 && parallel.is_one_rank();
    if (!gpus.gpus.empty() && !(alone && num_gpus() == 1)) {
      const std::string line = alone ? place_in_stages(options, load(), separate_gpus(gpu_use()))
                                     : place_on_gpus(options, load(), purpose, gpus);
      if (!line.empty()) log_line("{}", line);
    }
  }
  log_gpus(options);
  return options;
}

EngineOptions EngineFlags::options_without_plan() const {
  limit_instruction_set(instruction_set);
  EngineOptions options;
  for (const std::string& kernel : kernels) options.forced_variants.push_back(parse_forced_variant(kernel));
  if (devices.empty()) {
    const bool chooses_cpu = device == "auto" && (cpu_only() || !parallel.is_one_rank());
    options.device = device_from_name(chooses_cpu ? "cpu" : device, gpu_use());
    if (device == "auto" && !chooses_cpu && options.device.is_cpu()) {
      if (const std::string why = why_no_gpu_is_used(); !why.empty()) log_line("the CPU is used: {}", why);
    }
  } else {
    if (device != "auto") fail("--device {} and --devices {}: give one of them", device, devices);
    options.rank_devices = devices_from_list(devices, gpu_use());
    options.device = options.rank_devices.front();
  }
  options.precision = *precision_from_name(precision);
  options.messages = messages;
  options.num_threads = threads;
  options.max_batch_tokens = chunk;
  options.parallel = parallel;
  options.overlap = overlap;
  experts.apply_to(options);
  if (const std::int64_t count = std::ssize(options.rank_devices); count > 1 && parallel.is_one_rank())
    options.parallel.num_devices = options.parallel.tp = count;
  options.cache_tokens = context;
  if (gpu_weight_bytes > 0) options.gpu_weight_bytes = gpu_weight_bytes;
  if (host_expert_bytes > 0) options.host_expert_bytes = host_expert_bytes;
  options.fetch_ahead = !no_fetch_ahead;
  options.host_experts = host_experts;
  options.engram = engram;
  options.bounded_replay_tokens = bounded_replay;
  return options;
}

}  // namespace baleen
