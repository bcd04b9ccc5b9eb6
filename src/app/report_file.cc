#include "app/report_file.h"

#include <fmt/format.h>

#include "base/file.h"

namespace baleen {

void write_report_file(const std::string& path, std::string_view text, std::string_view how_to_open) {
  AtomicFileWriter writer(path);
  writer.write(text);
  writer.commit();
  fmt::print(stderr, "{} written: open it in {}\n", path, how_to_open);
}

}  // namespace baleen
