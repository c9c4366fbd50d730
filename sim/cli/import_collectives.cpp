// `lockstep import-collectives FILE...` reads measured collective curves from the output of
// nccl-tests into a profile. For the same numbers of ranks and nodes, a profile's curves replace
// the network model.
//
//   lockstep import-collectives all_reduce.txt --as a100-sxm4-80gb -o my-profile
//
// Without -o it prints the section `collectives` of the profile. With -o it adds the curves to
// my-profile/profile.yaml and leaves other measurements there unchanged.
#include <fmt/format.h>

#include <cstdio>

#include "cli/verb.hpp"
#include "core/errors.hpp"
#include "imports/nccl_tests.hpp"
#include "imports/profile_folder.hpp"

namespace lockstep::import_collectives_verb {

namespace {

struct Arguments {
  std::vector<std::string> files;
  NcclTestsOptions input;
  std::string device;  // "" = the device that the files name
  std::string folder;  // folder of the profile to add to; "" = print
};

// Merges the curves into the profile, and prints their ranks, nodes and sizes.
int import_collectives(const Arguments& options) {
  const NcclTestsImport imported = import_nccl_tests(options.files, options.input);
  Profile profile = open_profile(options.folder, options.device);
  if (const auto device_note = take_device(profile, imported.device)) note("note: " + *device_note);
  // The date of a profile is that of its first measurement.
  if (profile.date.empty()) profile.date = imported.date;
  set_version(profile, "nccl", imported.nccl_version);
  set_setting(profile, "collectives", "nccl-tests, out of place");
  merge_collectives(profile, imported.curves);
  for (const ProfileCollective& curve : imported.curves)
    note(fmt::format("{}, {}, {}: {}", curve.collective, counted(curve.ranks, "rank"),
                     counted(curve.nodes, "node"), counted(curve.points.size(), "size")));
  for (const std::string& remark : imported.notes) note("note: " + remark);
  if (options.folder.empty())
    print(profile_section(profile, "collectives"));
  else
    note("wrote " + save_profile(options.folder, profile));
  return 0;
}

Choice declare(CLI::App& app) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App& verb =
      *app.add_subcommand("import-collectives", "Collective curves from the output of nccl-tests");
  verb.add_option("files", arguments->files, "Text or JSON output (-J) of nccl-tests")->required();
  verb.add_option("--collective", arguments->input.collective,
                  "Collective that was measured, if a file does not say: all_reduce, ...");
  verb.add_option("--ranks", arguments->input.ranks, "Ranks (default: as listed)")
      ->check(CLI::Range(2, 1 << 20));
  verb.add_option("--nodes", arguments->input.nodes, "Nodes (default: as listed)")
      ->check(CLI::Range(1, 1 << 20));
  verb.add_option("--as", arguments->device, "Device file that the profile belongs to");
  verb.add_option("-o,--output", arguments->folder,
                  "Folder with the profile.yaml to extend (default: print)");
  add_examples(
      verb, {"all_reduce.txt --as a100-sxm4-80gb -o my-profile", "*.json --nodes 2 -o my-profile"});
  return {&verb, [arguments] { return import_collectives(*arguments); }};
}
const Verb verb{VerbGroup::measurements, declare};

}  // namespace

}  // namespace lockstep::import_collectives_verb
