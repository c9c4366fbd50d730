// `lockstep export SCENARIO`: the scenario with every default written out, runnable again.
#include "cli/commands.hpp"

namespace lockstep {

int export_command(const std::string& file) {
  print(write_scenario(read_scenario(file)));
  return 0;
}

}  // namespace lockstep
