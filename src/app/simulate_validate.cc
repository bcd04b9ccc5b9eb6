#include "app/commands.h"

#include <fmt/format.h>

#include <memory>

#include "app/data_files.h"
#include "app/options.h"
#include "app/provenance.h"
#include "app/report_file.h"
#include "base/file.h"
#include "simulator/report/validation_report.h"
#include "simulator/validation/published_set.h"

namespace baleen {

void add_simulate_validate_command(Options& command) {
  struct Flags {
    std::string file = data_file("tests/simulator/published.json");
    std::string html;
    bool json = false;
  };
  auto flags = std::make_shared<Flags>();
  command.path("FILE", flags->file, "Rows as in tests/simulator/published.json");
  command.path("--html", flags->html, "Write a page with plots and tables, for a browser");
  command.flag("--json", flags->json, "One JSON line");
  command.action([flags] {
    const std::vector<ValidatedRow> rows =
        validate_published(parse_published(read_text_file(flags->file), flags->file));
    if (!flags->html.empty())
      write_report_file(flags->html, validation_html(rows, provenance()), "a browser");
    fmt::print("{}\n", flags->json ? validation_json(rows) : validation_table(rows));
  });
}

}  // namespace baleen
