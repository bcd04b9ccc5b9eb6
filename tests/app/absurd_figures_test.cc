// The simulator with figures that no device and no load has: each field of a profile, a trace and a published
// row gets absurd values. What a reader refuses names the key; with what it takes, every command ends by
// itself, within bounds of memory, with status 0, 1 or 2, a sentence where that is not 0, and no time that is
// negative or no number.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "base/file.h"
#include "hardware/device_profile.h"
#include "simulator/validation/published_set.h"
#include "tests/support/baleen_program.h"
#include "tests/support/run_program.h"

namespace baleen {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using test::ProgramResult;

constexpr unsigned kSeconds = 240;  // a hang is endless
constexpr std::int64_t kAddressBytes = std::int64_t{8}
                                       << 30;  // of which most is stacks and arenas of threads

void expect_sound_numbers(const Json& json, const std::string& at) {
  if (json.is_number()) {
    EXPECT_TRUE(std::isfinite(json.get<double>()) && json.get<double>() >= 0) << at << " = " << json;
  } else if (json.is_structured()) {
    for (const auto& [name, value] : json.items()) expect_sound_numbers(value, at + "/" + name);
  } else {
    EXPECT_FALSE(json.is_null()) << at << ": infinite, or not a number";
  }
}

/// Status 0, 1 or 2, and what belongs to it. Returns whether it is 0.
bool expect_sound(std::vector<std::string> arguments) {
  std::string words;
  for (const std::string& word : arguments) words += word + " ";
  SCOPED_TRACE(words);
  arguments.insert(arguments.begin(), test::kBaleenProgram);
  const ProgramResult result =
      test::run_program(arguments, {.seconds = kSeconds, .address_bytes = kAddressBytes});
  EXPECT_TRUE(result.status >= 0 && result.status <= 2)
      << result.status << ": " << result.err.substr(0, 1000);
  EXPECT_EQ(result.err.find("unexpected:"), std::string::npos) << result.err;
  EXPECT_EQ(result.err.find("a defect"), std::string::npos) << result.err;
  if (result.status != 0) {
    EXPECT_GT(result.err.size(), 10U);
  }
  EXPECT_LT(result.err.size(), 5000U);
  if (arguments.back() == "--json") {
    for (std::size_t begin = 0; begin < result.out.size();) {
      const std::size_t end = result.out.find('\n', begin);
      const Json json = Json::parse(result.out.substr(begin, end - begin), nullptr, false);
      EXPECT_FALSE(json.is_discarded()) << result.out.substr(begin, 200);
      expect_sound_numbers(json, "");
      begin = end == std::string::npos ? result.out.size() : end + 1;
    }
  }
  for (const char* wrong : {"nan", "inf ", "-inf", " -0.", " -1", " -2", " -3"})
    EXPECT_EQ(result.out.find(wrong), std::string::npos) << wrong << " in " << result.out.substr(0, 2000);
  return result.status == 0;
}

/// One with every field.
Json full_profile(bool is_cpu) {
  DeviceProfile profile = *find_device_profile("h200");
  profile.name = "mine";
  profile.is_cpu = is_cpu;  // whose scratch every build plans
  profile.operations["linear"] = {.points = {{.num_rows = 1, .memory = 0.5, .static_seconds = 1e-6},
                                             {.num_rows = 64, .compute = 0.7, .scalar = 0.1}},
                                  .overlaps_scalar = true,
                                  .rows_per_tile = 64,
                                  .heads_per_tile = 64};
  profile.messages["all_reduce"] = {.points = {{1e3, 1e-6}, {1e6, 9e-6}},
                                    .num_ranks = 2,
                                    .seconds_per_further_rank = 5e-7,
                                    .whole_up_to_bytes = 4096};
  profile.memory_levels = {
      {.name = "host",
       .bytes = 0,
       .bytes_per_second = 5e10,
       .kernel_bytes_per_second = 4e10,
       .compute = {.bytes_per_second = 8e10,
                   .beside_copies_bytes_per_second = 6e10,
                   .copies_beside_bytes_per_second = 3e10,
                   .row_seconds = 2e-5,
                   .hand_over_seconds = 1e-5}},
      {.name = "disk", .bytes = 0, .bytes_per_second = 5e9, .kernel_bytes_per_second = 4e9}};
  profile.computes_on_host = true;
  profile.most_weight_bytes = 1'000'000'000;
  profile.graph_overlap_seconds = 1e-6;
  return Json::parse(profile_text(profile));
}

const Json kAbsurd[] = {0,
                        -1,
                        1e-300,
                        1e-12,
                        1e300,
                        1e19,
                        std::int64_t{1} << 62,
                        -(std::int64_t{1} << 62),
                        18446744073709551615U,
                        0.5,
                        "NaN",
                        nullptr,
                        true,
                        Json::array(),
                        Json::object(),
                        Json::array({1, 2, 3})};

/// Pointers to all numbers within, but for those of texts.
std::vector<Json::json_pointer> numbers_of(const Json& json) {
  std::vector<Json::json_pointer> found;
  const Json flat = json.flatten();
  for (const auto& [pointer, value] : flat.items())
    if (value.is_number()) found.emplace_back(pointer);
  return found;
}

/// The last name of a pointer, which a refusal must have.
std::string key_of(const Json::json_pointer& pointer) { return pointer.back(); }

std::string refusal_of(const Json& profile) {
  try {
    (void)parse_device_profile(profile.dump(), "mine.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

class AbsurdFigures : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }

  void run_all(const Json& profile) const {
    SCOPED_TRACE(profile.dump());
    const std::string device = write("mine.json", profile.dump());
    expect_sound({"simulate", "tiny-flash", "--device", device, "--num-queries", "3", "--query-length", "300",
                  "--json"});
    expect_sound({"simulate", "tiny-flash", "--device", device, "--num-devices", "2", "--tp", "2", "--decode",
                  "--num-mtp-tokens", "1", "--context-length", "900"});
    expect_sound({"simulate", "messages", "tiny-flash", "--device", device, "--json"});
    expect_sound({"simulate", "search", "tiny-flash", "--device", device, "--num-devices", "2",
                  "--max-concurrency", "4", "--isl", "64", "--osl", "8", "--json"});
    expect_sound({"simulate", "serve", "tiny-flash", "--device", device, "--rate", "50", "--requests", "20",
                  "--isl", "64", "--osl", "8", "--num-mtp-tokens", "1", "--json"});
    expect_sound(
        {"simulate", "train", "tiny-flash", "--device", device, "--global-batch-tokens", "65536", "--json"});
    expect_sound({"simulate", "train", "--config", "configs/stories-cpu.toml", "--device", device, "--json"});
    expect_sound({"plan", "tiny-flash", "--device", device, "--explain", "--devices", "2"});
  }

  const test::TemporaryFolder folder_;
};

TEST_F(AbsurdFigures, AProfileIsRefusedByTheNameOfTheKey) {
  const Json whole = full_profile(true);
  std::size_t num_refused = 0;
  for (const Json::json_pointer& pointer : numbers_of(whole)) {
    for (const Json& value : kAbsurd) {
      Json changed = whole;
      changed[pointer] = value;
      const std::string refusal = refusal_of(changed);
      if (refusal.empty()) continue;
      ++num_refused;
      EXPECT_NE(refusal.find(key_of(pointer)), std::string::npos)
          << pointer << " = " << value << ": " << refusal;
      EXPECT_LT(refusal.size(), 600U);
    }
  }
  EXPECT_GT(num_refused, 500U);
  // Lists of 100,000 entries.
  Json operations = whole, points = whole, links = whole, sources = whole;
  for (int i = 0; i < 100'000; ++i) {
    operations["operations"]["linear/" + std::to_string(i)] = whole["operations"]["linear"];
    points["operations"]["linear"]["points"].push_back({{"rows", 100 + i}, {"memory", 0.5}});
    links["links"].push_back({{"size", 100'000 + i}, {"bytes_per_second", 1e9}});
    sources["sources"]["x" + std::to_string(i)] = "none";
  }
  for (const auto& [profile, name] :
       {std::pair{&operations, "operations"}, {&points, "points"}, {&links, "links"}, {&sources, "sources"}})
    EXPECT_NE(refusal_of(*profile).find(std::string(name) + ": expected at most"), std::string::npos)
        << refusal_of(*profile);
}

/// What the reader takes: for every figure its smallest and its largest.
std::vector<std::pair<Json::json_pointer, double>> extremes(const Json& whole) {
  std::vector<std::pair<Json::json_pointer, double>> found;
  for (const Json::json_pointer& pointer : numbers_of(whole)) {
    const auto takes = [&](double value) {
      Json changed = whole;
      changed[pointer] = value;
      return refusal_of(changed).empty();
    };
    for (const int step : {-1, 1}) {
      double last = whole[pointer].get<double>();
      for (int exponent = step < 0 ? -30 : 30; exponent != 0; exponent -= step) {
        const double value = std::pow(10.0, exponent);
        if (!takes(value)) continue;
        last = value;
        break;
      }
      found.emplace_back(pointer, last);
    }
    if (takes(0)) found.emplace_back(pointer, 0);
  }
  return found;
}

TEST_F(AbsurdFigures, EveryFigureAtItsEnds) {
  const Json whole = full_profile(true);
  run_all(whole);
  for (const auto& [pointer, value] : extremes(whole)) {
    Json changed = whole;
    changed[pointer] = value;
    const std::string device = write("mine.json", changed.dump());
    expect_sound({"simulate", "tiny-flash", "--device", device, "--num-devices", "2", "--tp", "2", "--decode",
                  "--num-mtp-tokens", "1", "--json"});
  }
}

TEST_F(AbsurdFigures, ManyFiguresAtTheirEnds) {
  const Json whole = full_profile(true);
  const auto ends = extremes(whole);
  std::mt19937_64 random(3);
  for (int i = 0; i < 24; ++i) {
    Json changed = whole;
    const std::size_t count = i < 12 ? 1 + random() % 4 : ends.size();
    for (std::size_t n = 0; n < count; ++n) {
      const auto& [pointer, value] = ends[random() % ends.size()];
      Json next = changed;
      next[pointer] = value;
      if (refusal_of(next).empty()) changed = next;  // sizes and rows must still rise
    }
    changed["most_weight_bytes"] = 0;
    run_all(changed);
  }
}

TEST_F(AbsurdFigures, Traces) {
  const std::vector<std::string> load{"simulate",     "serve",     "tiny-flash", "--device",
                                      "zen5-2-cores", "--arrival", "trace",      "--trace"};
  const auto play = [&](const std::string& text, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = load;
    arguments.push_back(write("trace", text));
    arguments.insert(arguments.end(), more.begin(), more.end());
    arguments.push_back("--json");
    return expect_sound(arguments);
  };
  const std::string header = "arrival,prompt_tokens,output_tokens,session,family,family_tokens\n";
  EXPECT_TRUE(play(header + "0,5,5,a,f,3\n"));
  const std::string values[] = {"0",    "-1",  "1e-300", "1e300", "nan", "inf", "9223372036854775807",
                                "1e10", "0.5", "",       "x",     "1e9"};
  for (int column = 0; column < 6; ++column) {
    for (const std::string& value : values) {
      std::string fields[] = {"0", "5", "5", "a", "f", "3"};
      fields[column] = value;
      std::string line;
      for (const std::string& field : fields) line += (line.empty() ? "" : ",") + field;
      play(header + line + "\n");
    }
  }
  play(header + "0,5,5,,,\n9999999999,5,5,,,\n9999999999,5,5,,,\n", {"--speed", "1e-6"});
  play(header + "9999999999,5,5,,,\n9999999999,5,5,,,\n", {"--speed", "1e6"});
  std::string many = header;
  for (int i = 0; i < 100'000; ++i) many += "0,3,1,,,\n";
  EXPECT_TRUE(play(many));
}

TEST_F(AbsurdFigures, LoadsThatWouldNeverEndAreRefused) {
  const std::vector<std::string> serve{"simulate", "serve", "tiny-flash", "--device", "zen5-2-cores"};
  for (const std::vector<std::string>& load : std::vector<std::vector<std::string>>{
           {"--rate", "1e-6", "--requests", "4194304", "--osl", "1"},
           {"--rate", "1e9", "--requests", "4194304", "--osl", "1e9"},
           {"--rate", "1", "--requests", "10", "--think", "1e9", "--turns", "1000"},
           {"--rate", "1", "--requests", "50", "--isl-variation", "100", "--osl-variation", "100", "--osl",
            "9"},
           {"--rate", "1", "--requests", "50", "--burstiness", "1e-3", "--osl", "9"},
           {"--rate", "1", "--requests", "50", "--burstiness", "1000", "--osl", "9"},
           {"--rate", "1", "--requests", "50", "--osl", "9", "--context", "1099511627776"},
           {"--rate", "1", "--requests", "50", "--osl", "9", "--patience", "1e-300"},
           {"--rate", "1", "--requests", "50", "--osl", "9", "--imbalance", "1e6", "--hash-imbalance", "1e6"},
           {"--rate", "1", "--requests", "50", "--osl", "9", "--disaggregate", "--link-gbps", "0.001",
            "--link-latency-us", "1e9"},
           {"--arrival", "closed", "--clients", "4194304", "--requests", "50", "--osl", "9"}}) {
    std::vector<std::string> arguments = serve;
    arguments.insert(arguments.end(), load.begin(), load.end());
    arguments.push_back("--json");
    expect_sound(arguments);
  }
}

TEST_F(AbsurdFigures, ASearchOfManyDevicesIsCountedFirst) {
  for (const char* devices : {"4096", "2048"}) {
    const std::vector<std::string> search{"simulate", "search",        "flash", "--device",
                                          "h200",     "--num-devices", devices};
    std::vector<std::string> arguments{test::kBaleenProgram};
    arguments.insert(arguments.end(), search.begin(), search.end());
    const ProgramResult result =
        test::run_program(arguments, {.seconds = kSeconds, .address_bytes = kAddressBytes});
    EXPECT_EQ(result.status, 1) << result.err;
    EXPECT_NE(result.err.find("deployments; at most"), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("--max-instance"), std::string::npos) << result.err;
  }
  expect_sound({"simulate", "search", "tiny-flash", "--device", "h200", "--num-devices", "4096",
                "--max-instance", "2", "--max-concurrency", "4", "--max-mtp-tokens", "0", "--json"});
}

TEST_F(AbsurdFigures, PublishedRows) {
  const Json rows = Json::parse(read_text_file("tests/simulator/published.json"));
  std::size_t num_refused = 0;
  std::vector<std::string> seen;
  for (const Json& row : rows) {
    for (const Json::json_pointer& pointer : numbers_of(row)) {
      std::string kind;  // one row of each kind is enough
      for (const char* name : {"attention", "experts", "linear", "message"})
        if (row.contains(name)) kind = name;
      const std::string field = kind + pointer.to_string();
      if (std::ranges::find(seen, field) != seen.end()) continue;
      seen.push_back(field);
      for (const Json& value : kAbsurd) {
        Json changed = row;
        changed[pointer] = value;
        try {
          (void)validate_published(parse_published(Json::array({changed}).dump(), "rows"));
        } catch (const Error& error) {
          ++num_refused;
          EXPECT_LT(std::string(error.what()).size(), 600U);
        }
      }
    }
  }
  EXPECT_GT(num_refused, 200U);
}

}  // namespace
}  // namespace baleen
