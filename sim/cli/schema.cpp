// `lockstep schema WHAT`: the JSON Schema of a file format, for editors, or of what is printed, for
// programs; or its table of fields, for docs.
#include "cli/commands.hpp"
#include "core/describe.hpp"
#include "hardware/device_file.hpp"
#include "hardware/machine_file.hpp"
#include "results/render.hpp"

namespace lockstep {

int schema_command(const std::string& what, bool fields) {
  if (what == "scenario") {
    print(fields ? scenario_fields() : scenario_schema());
  } else if (what == "result") {
    print(fields ? result_fields() : result_schema());
  } else if (what == "training") {
    print(fields ? training_fields() : training_schema());
  } else if (what == "platform") {
    print(fields ? markdown_fields<MachineFile>()
                 : json_schema<MachineFile>("Lockstep platform").dump(2) + "\n");
  } else {
    print(fields ? markdown_fields<DeviceFile>()
                 : json_schema<DeviceFile>("Lockstep device").dump(2) + "\n");
  }
  return 0;
}

}  // namespace lockstep
