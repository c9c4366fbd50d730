// Reads the file that `-J FILE` of nccl-tests writes (src/util.cu there; versions 1 and 2 of the
// format). The file has a single line, so errors name the field instead of a line. Truth values are
// the texts "true" and "false", and `nwrong` is null if results were not checked.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "imports/nccl_tests.hpp"
#include "imports/trace.hpp"

namespace lockstep {
namespace {

using nlohmann::json;

class NcclJsonReader {
 public:
  explicit NcclJsonReader(const std::string& file) : file_(file) {}

  // Keys of the document that are read: `args` (the command line), `nccl_version` (major * 10000 +
  // minor * 100 + patch), `start_time`, `out_of_bounds` (the closing summary), `config` (the ranks)
  // and `results` (the sizes).
  NcclTestsRun read(const json& document) const {
    NcclTestsRun run;
    run.line = 1;
    if (!document.contains("results") || !document["results"].is_array())
      fail("results", "missing", "this is no JSON file of nccl-tests (-J)");
    if (document.contains("args") && !document["args"].empty() && document["args"][0].is_string()) {
      run.program = document["args"][0].get<std::string>();
      run.program.erase(0, run.program.rfind('/') + 1);
    }
    if (document.contains("nccl_version") && document["nccl_version"].is_number_integer()) {
      const int code = document["nccl_version"].get<int>();
      run.nccl_version = fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
    }
    if (document.contains("start_time") && document["start_time"].is_string())
      run.date = document["start_time"].get<std::string>().substr(0, 10);
    run.finished = document.contains("out_of_bounds");
    if (document.contains("config")) read_ranks(document["config"], run);
    std::size_t index = 0;
    for (const json& row : document["results"])
      read_row(row, fmt::format("results[{}]", index++), run);
    if (run.rows.empty()) fail("results", "holds no measurements");
    return run;
  }

 private:
  [[noreturn]] void fail(const std::string& field, const std::string& message,
                         const std::string& hint = "") const {
    throw ConfigError(Diagnostic{{file_, 1, 1}, field, message, hint});
  }

  // `config.devices` names only the first rank of each process, so ranks are processes x nthreads x
  // ngpus. Devices of other groups belong to further communicators (NCCL_TESTS_SPLIT) and do not
  // count.
  static void read_ranks(const json& config, NcclTestsRun& run) {
    if (!config.is_object() || !config.contains("devices") || !config["devices"].is_array()) return;
    std::set<std::string> hosts;
    int processes = 0;
    for (const json& device : config["devices"]) {
      if (!device.is_object() || device.value("group", 0) != 0) continue;
      ++processes;
      hosts.insert(device.value("hostname", ""));
      if (run.device.empty()) run.device = device.value("device_info", "");
    }
    run.ranks = processes * config.value("nthreads", 1) * config.value("ngpus", 1);
    run.nodes = static_cast<int>(hosts.size());
  }

  // A row has the columns of the table: `out_of_place` and `in_place`, with `time` in microseconds.
  void read_row(const json& row, const std::string& field, NcclTestsRun& run) const {
    if (!row.is_object()) fail(field, "must be an object");
    const double bytes = number(row, "size", field);
    for (const char* place : {"out_of_place", "in_place"}) {
      if (!row.contains(place) || !row[place].is_object()) continue;
      const json& cell = row[place];
      if (cell.contains("nwrong") && cell["nwrong"].is_number() && cell["nwrong"] > 0)
        fail(fmt::format("{}.{}.nwrong", field, place),
             fmt::format("{} wrong values in the result", cell["nwrong"].get<double>()),
             "find out why before trusting the times; nothing was imported");
    }
    // nccl-tests rounds a size that is too small to be split among the ranks down to 0.
    if (bytes == 0) return;
    if (!row.contains("out_of_place") || !row["out_of_place"].is_object())
      fail(field + ".out_of_place", "missing");
    const json& cell = row["out_of_place"];
    if (cell.contains("cpu_time"))
      fail(field + ".out_of_place.cpu_time", "the CPU time of the calls, not of the collectives",
           "measure without -C");
    const double microseconds = number(cell, "time", field + ".out_of_place");
    if (!(microseconds > 0)) fail(field + ".out_of_place.time", "must be positive");
    run.rows.push_back({bytes, microseconds * 1e-6});
  }

  // The number at a key. Throws ConfigError if the value is no number.
  double number(const json& object, const char* key, const std::string& field) const {
    if (!object.contains(key) || !object[key].is_number())
      fail(fmt::format("{}.{}", field, key), "must be a number");
    return object[key].get<double>();
  }

  std::string file_;
};

}  // namespace

std::vector<NcclTestsRun> read_nccl_tests_json(const std::string& text, const std::string& file) {
  json document;
  try {
    document = json::parse(text);
  } catch (const json::parse_error& error) {
    throw json_error(file, text, error.byte);
  }
  try {
    return {NcclJsonReader(file).read(document)};
  } catch (const json::exception&) {  // a key of another type than nccl-tests writes
    throw file_error(file, "", "this is no JSON file of nccl-tests (-J)");
  }
}

}  // namespace lockstep
