// `lockstep schema NAME` prints the JSON Schema (draft-07) of a file format or of a printed JSON
// answer. Editors use it to complete and check files, programs to read answers. With --fields it
// prints a Markdown table of the fields, from which a part of docs/ is made.
//
//   lockstep schema scenario > scenario.schema.json
//   lockstep schema result --fields
#include <fmt/format.h>

#include "cli/printed_schemas.hpp"
#include "cli/verb.hpp"
#include "cluster/cluster_fields.hpp"
#include "core/describe.hpp"
#include "costs/profile.hpp"
#include "hardware/device_file.hpp"
#include "hardware/machine_file.hpp"
#include "results/alternatives.hpp"
#include "results/render.hpp"
#include "sweep/recommend.hpp"

namespace lockstep::schema_verb {

namespace {

// Schema of a file format from its declaration.
template <class File>
std::string file_schema(const char* title) {
  return json_schema<File>(title).dump(2) + "\n";
}

// A format whose fields a describe() function declares: its name, its schema and its table.
struct Described {
  const char* name;
  std::string (*schema)();
  std::string (*fields)();
};
const Described described[] = {
    {"scenario", scenario_schema, scenario_fields},
    {"cluster", [] { return file_schema<ClusterFile>("Lockstep cluster"); },
     markdown_fields<ClusterFile>},
    {"platform", [] { return file_schema<MachineFile>("Lockstep platform"); },
     markdown_fields<MachineFile>},
    {"device", [] { return file_schema<DeviceFile>("Lockstep device"); },
     markdown_fields<DeviceFile>},
    {"profile", profile_schema, profile_fields},
    {"result", result_schema, result_fields},
    {"alternatives", alternatives_schema, alternatives_fields},
    {"training", training_schema, training_fields},
    {"recommendation", recommendation_schema, recommendation_fields},
};

Choice declare(CLI::App& app) {
  struct Arguments {
    std::string format;
    bool fields = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App& verb = *app.add_subcommand(
      "schema", "Print the JSON Schema (draft-07) of a file format or of JSON output");
  std::vector<std::string> names;
  for (const Described& entry : described) names.emplace_back(entry.name);
  // Answers without such a function (printed_schemas.hpp), and the verbs that print them.
  std::string others;
  for (const std::string& name : printed_schema_names()) {
    names.push_back(name);
    others += fmt::format(", {} (of {})", name, printed_schema_verb(name));
  }
  verb.add_option("what", arguments->format,
                  "scenario, cluster, platform, device, profile; result and alternatives (of run "
                  "--json), training (of train --json), "
                  "recommendation (of recommend --json)" +
                      others)
      ->required()
      ->check(CLI::IsMember(names));
  verb.add_flag("--fields", arguments->fields, "Print a Markdown table of the fields instead");
  add_examples(verb, {"scenario > scenario.schema.json", "result --fields"});
  return {&verb, [arguments] {
            for (const Described& entry : described) {
              if (arguments->format == entry.name)
                print(arguments->fields ? entry.fields() : entry.schema());
            }
            for (const std::string& name : printed_schema_names()) {
              if (arguments->format == name)
                print(arguments->fields ? printed_schema_fields(name) : printed_schema(name));
            }
            return 0;
          }};
}
const Verb verb{VerbGroup::formats, declare};

}  // namespace

}  // namespace lockstep::schema_verb
