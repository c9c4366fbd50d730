// `lockstep import-collectives FILE...`: measured collective curves from the output of nccl-tests.
#include <fmt/format.h>

#include <cstdio>

#include "cli/commands.hpp"
#include "core/errors.hpp"
#include "imports/profile_folder.hpp"

namespace lockstep {

int import_collectives_command(const std::vector<std::string>& files,
                               const ImportCollectivesOptions& options) {
  const NcclTestsImport imported = import_nccl_tests(files, options.input);
  Profile profile = open_profile(options.folder, options.device);
  take_device(profile, imported.device);
  if (profile.date.empty()) profile.date = imported.date;
  set_version(profile, "nccl", imported.nccl_version);
  set_setting(profile, "collectives", "nccl-tests, out of place");
  merge_collectives(profile, imported.curves);
  for (const ProfileCollective& curve : imported.curves)
    fmt::print(stderr, "{}, {} ranks, {} nodes: {} sizes\n", curve.collective, curve.ranks,
               curve.nodes, curve.points.size());
  for (const std::string& note : imported.notes) fmt::print(stderr, "note: {}\n", note);
  if (options.folder.empty())
    print(profile_section(profile, "collectives"));
  else
    fmt::print(stderr, "wrote {}\n", save_profile(options.folder, profile));
  return 0;
}

}  // namespace lockstep
