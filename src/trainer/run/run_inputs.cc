#include "trainer/run/run_inputs.h"

#include <set>
#include <vector>

#include "base/checksum.h"
#include "base/error.h"
#include "base/file.h"
#include "model_files/folder.h"
#include "trainer/run/import.h"

namespace baleen {

RunInputs exported_inputs(const TrainConfig& config) {
  RunInputs inputs;
  std::map<std::string, std::string>& files = inputs["tokenizer"];
  for (const TextFile& file : tokenizer_files(config.data.folder)) files[file.name] = checksum_of(file.text);
  if (config.run.from.empty()) return inputs;  // the tables are a function of the seed
  Checksum tables;
  for (const std::vector<std::int64_t>& table : token_tables_of(config).experts)
    tables.add(std::as_bytes(std::span(table)));
  inputs["tables"]["experts of token ids in run.from"] = tables.text();
  return inputs;
}

std::string weights_checksum(const Parameters<float>& weights) {
  Checksum all;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    all.add(weights.spec(i).name);
    all.add(std::as_bytes(weights.values(i)));
  }
  return all.text();
}

void check_inputs(const RunInputs& before, const RunInputs& now, const std::filesystem::path& folder) {
  std::string differences;
  for (const auto& [kind, found] : now) {
    const auto place = before.find(kind);
    if (place == before.end()) continue;
    const std::map<std::string, std::string>& expected = place->second;
    std::set<std::string> names;
    for (const auto& [name, checksum] : found) names.insert(name);
    for (const auto& [name, checksum] : expected) names.insert(name);
    for (const std::string& name : names) {
      if (!found.contains(name)) {
        differences += fmt::format("\n  {}, {}: missing now", kind, name);
      } else if (!expected.contains(name)) {
        differences += fmt::format("\n  {}, {}: not there then", kind, name);
      } else if (found.at(name) != expected.at(name)) {
        differences += fmt::format("\n  {}, {}: other contents now", kind, name);
      }
    }
  }
  if (!differences.empty()) {
    fail(
        "{}: what the run reads is not what it read before:{}\nrestore it to continue, or name another "
        "folder (‹output folder›) for a new run",
        folder.string(), differences);
  }
}

}  // namespace baleen
