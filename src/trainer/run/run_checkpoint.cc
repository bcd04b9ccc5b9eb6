#include "trainer/run/run_checkpoint.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "checkpoint/safetensors_writer.h"
#include "model_files/staged_folder.h"

namespace baleen {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStateFile = "state.safetensors";
constexpr const char* kRunFile = "run.json";
constexpr int kVersion = 1;

struct StateArray {
  std::vector<std::int64_t> shape;
  std::span<float> values;
};

/// The arrays of a run by their names in the file.
std::map<std::string, StateArray> arrays_of(RunState& state) {
  std::map<std::string, StateArray> arrays;
  const auto add = [&](std::string_view kind, const TensorSpec& spec, std::span<float> values) {
    if (!values.empty()) arrays[fmt::format("{}.{}", kind, spec.name)] = {spec.shape, values};
  };
  for (std::size_t i = 0; i < state.weights.size(); ++i) {
    const bool has_adapter = state.adapters && !state.adapters->base(i).empty();
    add("weight", state.weights.spec(i), has_adapter ? state.adapters->base(i) : state.weights.values(i));
  }
  Parameters<float>& trained = state.trained();
  for (std::size_t i = 0; i < trained.size(); ++i) {
    if (state.adapters) add("weight", trained.spec(i), trained.values(i));
    add("first", trained.spec(i), state.optimiser.first(i));
    add("second", trained.spec(i), state.optimiser.second(i));
  }
  return arrays;
}

void write_arrays(const fs::path& path, const std::map<std::string, StateArray>& arrays) {
  std::vector<TensorHeader> headers;
  for (const auto& [name, array] : arrays) headers.push_back({name, DType::kF32, array.shape});
  SafetensorsWriter writer(path, std::move(headers));
  for (const TensorHeader& header : std::vector<TensorHeader>(writer.order()))
    writer.append(header.name, std::as_bytes(arrays.at(header.name).values));
  writer.commit();
}

void read_arrays(const fs::path& path, const std::map<std::string, StateArray>& arrays) {
  const SafetensorsFile file(path);
  for (const auto& [name, array] : arrays) {
    const TensorInfo* tensor = file.find(name);
    if (tensor == nullptr) fail("{}: tensor \"{}\" is missing", path.string(), name);
    if (tensor->dtype != DType::kF32 || tensor->shape != array.shape) {
      fail("{}: tensor \"{}\": expected F32 [{}], found {}", path.string(), name,
           fmt::join(array.shape, ", "), tensor->type_text());
    }
    std::memcpy(array.values.data(), tensor->bytes.data(), tensor->bytes.size());
  }
}

/// The whole number called `name`.
std::int64_t whole_number(const nlohmann::ordered_json& run, const char* name, const fs::path& path) {
  const auto found = run.find(name);
  if (found == run.end() || !found->is_number_integer() || found->get<std::int64_t>() < 0)
    fail("{}: \"{}\": expected a whole number, at least 0", path.string(), name);
  return found->get<std::int64_t>();
}

}  // namespace

void write_run_checkpoint(const fs::path& folder, const TrainConfig& config, RunState& state) {
  StagedFolder staged(folder, true, {kStateFile, kRunFile}, "checkpoint of the run");
  write_arrays(staged.path() / kStateFile, arrays_of(state));
  const nlohmann::ordered_json run{{"version", kVersion},
                                   {"step", state.step},
                                   {"updates", state.optimiser.num_updates()},
                                   {"skipped_in_row", state.skipped_in_row},
                                   {"config_hash", config_hash(config)},
                                   {"config", canonical_text(config)}};
  AtomicFileWriter writer(staged.path() / kRunFile);
  writer.write(run.dump(1) + "\n");
  writer.commit();
  staged.commit();
}

void read_run_checkpoint(const fs::path& folder, const TrainConfig& config, RunState& state) {
  const fs::path path = folder / kRunFile;
  const Result<nlohmann::ordered_json> parsed = parse_ordered_json(read_text_file(path));
  if (!parsed.ok()) fail("{}: {}", path.string(), parsed.error());
  const nlohmann::ordered_json& run = parsed.value();
  if (!run.is_object() || !run.contains("config") || !run["config"].is_string())
    fail("{}: expected the state of a training run", path.string());
  if (whole_number(run, "version", path) != kVersion)
    fail("{}: version {}, expected {}", path.string(), run["version"].dump(), kVersion);
  const std::vector<std::string> differences = config_differences(run["config"].get<std::string>(), config);
  if (!differences.empty()) {
    fail(
        "{}: the run was started with another configuration:\n  {}\n"
        "give the file its earlier values to continue, or name another folder (--out) for a new run",
        folder.string(), fmt::join(differences, "\n  "));
  }
  read_arrays(folder / kStateFile, arrays_of(state));
  if (state.adapters) state.adapters->merge(state.weights);
  state.step = whole_number(run, "step", path);
  state.skipped_in_row = whole_number(run, "skipped_in_row", path);
  state.optimiser.set_num_updates(whole_number(run, "updates", path));
}

}  // namespace baleen
