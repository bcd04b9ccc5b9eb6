#include "app/simulate_validate.h"

#include <fmt/format.h>

#include <memory>

#include "app/data_files.h"
#include "app/provenance.h"
#include "app/report_file.h"
#include "base/file.h"
#include "simulator/report/validation_report.h"
#include "simulator/validation/published_set.h"

namespace baleen {

void add_simulate_validate_command(CLI::App& simulate) {
  struct Flags {
    std::string file = data_file("tests/simulator/published.json");
    std::string html;
    bool json = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command =
      simulate.add_subcommand("validate", "What others published, and what the simulator says");
  command->add_option("FILE", flags->file, "Rows as in tests/simulator/published.json")
      ->capture_default_str();
  command->add_option("--html", flags->html, "Write a page with plots and tables, for a browser");
  command->add_flag("--json", flags->json, "One JSON line");
  command->callback([flags] {
    const std::vector<ValidatedRow> rows =
        validate_published(parse_published(read_text_file(flags->file), flags->file));
    if (!flags->html.empty())
      write_report_file(flags->html, validation_html(rows, provenance()), "a browser");
    fmt::print("{}\n", flags->json ? validation_json(rows) : validation_table(rows));
  });
}

}  // namespace baleen
