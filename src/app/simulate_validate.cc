#include "app/simulate_validate.h"

#include <fmt/format.h>

#include <memory>

#include "app/engine_flags.h"
#include "app/options.h"
#include "base/file.h"
#include "simulator/validation/published_set.h"

namespace baleen {

void add_simulate_validate_command(Options& simulate) {
  struct Flags {
    std::string file = checkout_path("tests/simulator/published.json");
    bool json = false;
  };
  auto flags = std::make_shared<Flags>();
  Options command = simulate.command("validate", "What others published, and what the simulator says");
  command.path("FILE", flags->file, "Rows as in tests/simulator/published.json");
  command.flag("--json", flags->json, "One JSON line");
  command.action([flags] {
    const std::vector<ValidatedRow> rows =
        validate_published(parse_published(read_text_file(flags->file), flags->file));
    fmt::print("{}\n", flags->json ? validation_json(rows) : validation_table(rows));
  });
}

}  // namespace baleen
