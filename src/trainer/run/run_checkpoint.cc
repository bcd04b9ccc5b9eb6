#include "trainer/run/run_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/checksum.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_fields.h"
#include "base/number.h"
#include "base/quoted_text.h"
#include "checkpoint/safetensors_writer.h"
#include "log/log.h"
#include "model_files/staged_folder.h"
#include "trainer/graph/finite_values.h"

namespace baleen {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStateFile = "state.safetensors";
constexpr const char* kRunFile = "run.json";
constexpr int kVersion = 2;
/// Without checksums and inputs.
constexpr int kVersionWithoutChecksums = 1;
constexpr std::int64_t kMaxStep = std::int64_t{1} << 40;

using Json = nlohmann::ordered_json;

struct StateArray {
  std::vector<std::int64_t> shape;
  std::span<float> values;
  bool is_square = false;  ///< sums of squares, which have no sign
};

/// The arrays of a run by their names in the file.
std::map<std::string, StateArray> arrays_of(RunState& state) {
  std::map<std::string, StateArray> arrays;
  const auto add = [&](std::string_view kind, const TensorSpec& spec, std::span<float> values) {
    if (!values.empty())
      arrays[fmt::format("{}.{}", kind, spec.name)] = {spec.shape, values, kind == "second"};
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

/// Names of the arrays of all ranks.
std::set<std::string> names_of(RunState& state) {
  std::set<std::string> names;
  for (const auto& [name, array] : arrays_of(state)) names.insert(name);
  const Parameters<float>& trained = state.trained();
  for (std::size_t i = 0; i < trained.size(); ++i) {
    if (state.optimiser.homes().of_tensor[i] < 0) continue;
    names.insert("first." + trained.spec(i).name);
    if (state.optimiser.groups()[i].rule == UpdateRule::kAdamW)
      names.insert("second." + trained.spec(i).name);
  }
  return names;
}

void check_values(const fs::path& path, const std::string& name, const StateArray& array) {
  check_finite(fmt::format("{}: tensor \"{}\"", path.string(), name), array.values);
  if (!array.is_square) return;
  const auto negative = std::ranges::find_if(array.values, [](float value) { return value < 0; });
  if (negative != array.values.end()) {
    fail("{}: tensor \"{}\": value {} is {}; expected a mean of squares, at least 0", path.string(), name,
         grouped(static_cast<std::int64_t>(negative - array.values.begin())), *negative);
  }
}

/// Writes them and returns the checksum of each.
std::map<std::string, std::string> write_arrays(const fs::path& path,
                                                const std::map<std::string, StateArray>& arrays) {
  std::map<std::string, std::string> checksums;
  std::vector<TensorHeader> headers;
  for (const auto& [name, array] : arrays) {
    check_values(path, name, array);
    headers.push_back({name, DType::kF32, array.shape});
    checksums[name] = checksum_of(std::as_bytes(array.values));
  }
  SafetensorsWriter writer(path, std::move(headers));
  for (const TensorHeader& header : std::vector<TensorHeader>(writer.order()))
    writer.append(header.name, std::as_bytes(arrays.at(header.name).values));
  writer.commit();
  return checksums;
}

/// `checksums`: of the tensors that were written; empty: none were kept.
void read_arrays(const fs::path& path, RunState& state, const std::map<std::string, std::string>& checksums) {
  const SafetensorsFile file(path);
  const std::set<std::string> names = names_of(state);
  for (const TensorInfo& tensor : file.tensors()) {
    if (!names.contains(tensor.name) || (!checksums.empty() && !checksums.contains(tensor.name)))
      fail("{}: tensor {}: no part of this run's state; expected {} tensors, found {}", path.string(),
           quoted_text(tensor.name), names.size(), file.tensors().size());
  }
  for (const std::string& name : names)
    if (file.find(name) == nullptr) fail("{}: tensor \"{}\" is missing", path.string(), name);
  for (const auto& [name, array] : arrays_of(state)) {
    const TensorInfo& tensor = *file.find(name);
    if (tensor.dtype != DType::kF32 || tensor.shape != array.shape) {
      fail("{}: tensor \"{}\": expected F32 [{}], found {}", path.string(), name,
           fmt::join(array.shape, ", "), tensor.type_text());
    }
  }
  for (const auto& [name, array] : arrays_of(state)) {
    const TensorInfo& tensor = *file.find(name);
    if (!checksums.empty() && checksum_of(tensor.bytes) != checksums.at(name))
      fail("{}: tensor \"{}\": its bytes do not match their checksum; the file is damaged", path.string(),
           name);
    std::memcpy(array.values.data(), tensor.bytes.data(), tensor.bytes.size());
    check_values(path, name, array);
  }
}

/// run.json, member by member.
class RunFile : private TypedFields<RunFile, JsonNotation> {
 public:
  explicit RunFile(const fs::path& path) : path_(path) {
    Result<Json> parsed = parse_ordered_json(read_text_file(path));
    if (!parsed.ok()) fail("{}: {}", path.string(), parsed.error());
    run_ = std::move(parsed).value();
    if (!run_.is_object() || !run_.contains("config") || !run_["config"].is_string())
      fail("{}: expected the state of a training run", path.string());
    version_ = whole_number("version", {1, kVersion});
    // A text without a checksum under the number of a version that has one was changed.
    if (has_checksums() && text("checksum") != checksum_without(run_))
      fail("{}: its bytes do not match its checksum; the file is damaged", path.string());
    if (!has_checksums() && run_.contains("checksum"))
      fail("{}: version {} has no checksum; the file is damaged", path.string(), version_);
  }

  /// Of all members but "checksum".
  static std::string checksum_without(Json run) {
    run.erase("checksum");
    return checksum_of(run.dump());
  }

  [[nodiscard]] bool has(const char* name) const { return run_.contains(name); }
  [[nodiscard]] bool has_checksums() const { return version_ != kVersionWithoutChecksums; }
  [[nodiscard]] std::int64_t whole_number(const char* name, WholeRange range) const {
    return *whole(name, range);
  }
  [[nodiscard]] std::string text(const char* name) const { return *TypedFields::text(name); }
  /// A member that the checksum vouches for.
  template <class T>
  [[nodiscard]] T value(const char* name) const {
    try {
      return run_.at(name).get<T>();
    } catch (const Json::exception&) {
      fail("{}: \"{}\": not what a run of this version writes", path_.string(), name);
    }
  }

 private:
  friend TypedFields;
  const Json* find(const char* name, std::string_view expected) const {
    const auto found = run_.find(name);
    if (found == run_.end()) fail("{}: \"{}\": expected {}; found none", path_.string(), name, expected);
    return &*found;
  }
  [[noreturn]] void refuse(const char* name, std::string_view expected, const Json& found) const {
    fail("{}: \"{}\": expected {}; found {}", path_.string(), name, expected,
         shortened_text(found.dump(), 60));
  }

  fs::path path_;
  Json run_;
  std::int64_t version_ = 0;
};

}  // namespace

void write_run_checkpoint(const fs::path& folder, const TrainConfig& config, RunState& state) {
  StagedFolder staged(folder, true, {kStateFile, kRunFile}, "checkpoint of the run");
  const std::map<std::string, std::string> checksums =
      write_arrays(staged.path() / kStateFile, arrays_of(state));
  Json run{{"version", kVersion},
           {"step", state.step},
           {"updates", state.optimiser.num_updates()},
           {"skipped_in_row", state.skipped_in_row},
           {"config_hash", config_hash(config)},
           {"config", canonical_text(config)},
           {"inputs", state.inputs},
           {"tensors", checksums}};
  if (state.log) run["log"] = {{"bytes", state.log->bytes}, {"checksum", state.log->checksum}};
  run["checksum"] = RunFile::checksum_without(run);
  AtomicFileWriter writer(staged.path() / kRunFile);
  writer.write(run.dump(1) + "\n");
  writer.commit();
  staged.commit();
}

void read_run_checkpoint(const fs::path& folder, const TrainConfig& config, RunState& state, bool says_so) {
  const RunFile run(folder / kRunFile);
  const std::vector<std::string> differences = config_differences(run.text("config"), config);
  if (!differences.empty()) {
    fail(
        "{}: the run was started with another configuration:\n  {}\ngive the file its earlier values to "
        "continue, or name another folder (‹output folder›) for a new run",
        folder.string(), fmt::join(differences, "\n  "));
  }
  std::map<std::string, std::string> checksums;
  if (run.has_checksums()) {
    check_inputs(run.value<RunInputs>("inputs"), state.inputs, folder);
    checksums = run.value<std::map<std::string, std::string>>("tensors");
    if (run.has("log")) {
      state.log = {.bytes = run.value<Json>("log").value("bytes", std::int64_t{0}),
                   .checksum = run.value<Json>("log").value("checksum", "")};
    }
  } else if (says_so) {
    log_line(
        "{}: written by an earlier version, without checksums: damage to its weights and states is not "
        "noticed",
        folder.string());
  }
  read_arrays(folder / kStateFile, state, checksums);
  if (state.adapters) state.adapters->merge(state.weights);
  state.step = run.whole_number("step", {0, std::min(kMaxStep, config.run.steps)});
  state.skipped_in_row = run.whole_number("skipped_in_row", {0, state.step});
  state.optimiser.set_num_updates(run.whole_number("updates", {0, state.step}));
}

void read_newest_checkpoint(const RunFolder& folder, const TrainConfig& config, RunState& state,
                            bool says_so) {
  const std::vector<std::int64_t> checkpoints = folder.checkpoints();
  const fs::path newest = folder.checkpoint(checkpoints.back());
  try {
    read_run_checkpoint(newest, config, state, says_so);
    if (state.step != checkpoints.back()) {
      fail("{}: \"step\": expected {}, as the folder is called; found {}", (newest / kRunFile).string(),
           checkpoints.back(), state.step);
    }
  } catch (const Error& error) {
    if (checkpoints.size() == 1) throw;
    fail("{}\nmove {} away to continue from the checkpoint of step {}", error.what(), newest.string(),
         grouped(checkpoints[checkpoints.size() - 2]));
  }
}

}  // namespace baleen
