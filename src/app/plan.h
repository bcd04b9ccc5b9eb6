/// `baleen plan`: what memory a model takes on a device, before anything is loaded.
#pragma once

namespace baleen {

class Options;

void add_plan_command(Options& program);

}  // namespace baleen
