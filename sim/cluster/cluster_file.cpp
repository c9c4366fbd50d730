// Reads a cluster's scenario by the declarations of cluster_fields.hpp. Paths in the file
// (platform, trace) are relative to the folder of the file, not to the working directory. Whether
// jobs, workloads and cluster fit together is checked later, in question.cpp.
#include "cluster/cluster_file.hpp"

#include <filesystem>

#include "cluster/cluster_fields.hpp"
#include "core/data.hpp"
#include "core/describe.hpp"

namespace lockstep {

namespace {

// Reads the root map of a cluster's scenario. Users may pass the scenario of a single training,
// which has `strategies` at the root and no `cluster`. The error then names the right command;
// otherwise every key would be reported as unknown.
ClusterFile read_root(const Node& root, const std::string& file) {
  if (root.kind() == Node::Kind::map && !root.find("cluster") && root.find("strategies")) {
    Diagnostic diagnostic = root.find("strategies")
                                ->error("belongs to a scenario of one training",
                                        "`lockstep run` answers that; a cluster's has `cluster:`");
    diagnostic.where = root.key_location("strategies");
    throw ConfigError(diagnostic);
  }
  ClusterFile cluster = read_node<ClusterFile>(root);
  cluster.file = file;
  // A platform is a shipped name, or a path relative to this file.
  cluster.cluster.platform = seen_from(file, cluster.cluster.platform);
  if (cluster.trace) {
    cluster.trace->file = std::filesystem::path(file).parent_path() / cluster.trace->file;
  }
  return cluster;
}

}  // namespace

ClusterFile read_cluster(const std::string& path) {
  return read_root(Node::parse_file(path), path);
}

ClusterFile read_cluster_text(std::string_view text, const std::string& file_name) {
  return read_root(Node::parse_text(text, file_name), file_name);
}

std::vector<std::string> shipped_clusters() {
  return files_in(data_folder("scenarios/cluster"), ".yaml");
}

}  // namespace lockstep
