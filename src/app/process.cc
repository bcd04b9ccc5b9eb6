#include "app/process.h"

#include <csignal>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "app/option_names.h"
#include "base/error.h"
#include "base/standard_streams.h"
#include "log/log.h"

namespace baleen {
namespace {

/// Only now, with all destructors run and temporary files removed.
void end_quietly_if_reader_left() {
  if (!output_reader_left()) return;
  std::signal(SIGPIPE, SIG_DFL);
  std::raise(SIGPIPE);
}

/// Of fmt::print and of std::cout, which only standard output goes through.
bool is_lost_output(const std::system_error& error) {
  return std::string_view(error.what()).starts_with("cannot write to file") ||
         dynamic_cast<const std::ios_base::failure*>(&error) != nullptr;
}

}  // namespace

void prepare_process() {
  reserve_standard_streams();
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  std::cout.exceptions(std::ios::badbit);
}

int exit_status_of_exception() {
  try {
    throw;
  } catch (const LostOutput& lost) {
    end_quietly_if_reader_left();
    log_lines(fmt::format("baleen: {}", lost.what()));
  } catch (const Error& error) {
    log_lines(fmt::format("baleen: {}", in_options(error.what())));
  } catch (const std::bad_alloc&) {
    log_line("baleen: out of memory; try a smaller --context or --chunk");
  } catch (const std::system_error& error) {
    const auto* file = dynamic_cast<const std::filesystem::filesystem_error*>(&error);
    if (file != nullptr) {
      log_lines(fmt::format("baleen: {}: {}", file->path1().string(), error.code().message()));
    } else if (!is_lost_output(error)) {  // no thread, no socket, no lock
      log_line("baleen: the system refused: {}", error.code().message());
    } else {
      end_quietly_if_reader_left();
      log_line("baleen: standard output: writing failed; is the disk full?");
    }
  } catch (const std::length_error&) {  // a size that no memory could hold
    log_line("baleen: out of memory; try smaller numbers");
  } catch (const std::exception& error) {
    log_line("baleen: a defect of this program, please report it: {}", error.what());
  }
  return 1;
}

}  // namespace baleen
