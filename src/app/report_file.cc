#include "app/report_file.h"

#include "base/file.h"
#include "log/log.h"

namespace baleen {

void write_report_file(const std::string& path, std::string_view text, std::string_view how_to_open) {
  AtomicFileWriter writer(path);
  writer.write(text);
  writer.commit();
  log_line("{} written: open it in {}", path, how_to_open);
}

}  // namespace baleen
