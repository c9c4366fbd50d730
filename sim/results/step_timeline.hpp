// One step of one rank, drawn on the report's page: a lane (a row of bars) for each stream, with
// its work and its waits. timeline/ fills it; json_of() converts it for the page. Times are seconds
// since the step began on the device.
#pragma once

#include <array>
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// Kinds of slices: work, a transfer, or a wait and its cause. If a part of the step
// (step_parts.hpp) corresponds to a kind, both have the same name.
enum class SliceKind {
  forward,
  backward,
  optimizer,
  copies,
  transfer,
  // Waits of the device or the host.
  exposed_communication,
  data_loading,
  waiting,
  copying,
  host_bound,
  updating,
  synchronising,
};
// Colour and words of a kind of slices.
struct SliceKindText {
  std::string_view colour;   // the CSS variable --part-COLOUR of page.css
  std::string_view heading;  // in the legend and in a slice's description
};
// In the order of SliceKind.
inline constexpr std::array slice_kinds{
    SliceKindText{"forward", "forward"},
    SliceKindText{"backward", "backward"},
    SliceKindText{"optimizer", "optimizer"},
    SliceKindText{"copies", "copies"},
    SliceKindText{"transfer", "transfer"},
    SliceKindText{"exposed_communication", "waits for communication"},
    SliceKindText{"data_loading", "waits for input"},
    SliceKindText{"waiting", "waits for others"},
    SliceKindText{"copies", "waits for a copy"},
    SliceKindText{"host_bound", "waits for the host"},
    SliceKindText{"optimizer", "waits for the update"},
    SliceKindText{"synchronising", "host waits for the device"},
};
inline bool is_wait(SliceKind kind) {
  return kind >= SliceKind::exposed_communication;
}

// One bar of a lane.
struct TimelineSlice {
  SliceKind kind = SliceKind::forward;
  std::string name;
  double start = 0, end = 0;
  int merged = 1;  // number of operations and waits in this bar; the name is the first one's
  std::string last_name{};  // name of the last one, if several are merged
};

// One row of the drawing: a stream of the rank, its host, or a server.
struct TimelineLane {
  std::string name;                   // "compute", "gradients", "server 0: compute"
  std::vector<TimelineSlice> slices;  // ascending, without overlap
  // Values for the whole step, computed before slices are merged. Waits do not count as busy.
  double busy_seconds = 0;
  int operations = 0;
  std::vector<TimelineSlice> longest{};  // at most three operations, longest first
};

// The drawing of one step of one rank.
struct StepTimeline {
  std::string strategy;
  int gpus = 1, rank = 0;
  int step = 0;        // number of the step, from 0
  double seconds = 0;  // duration of the step on the compute stream
  std::vector<TimelineLane> lanes;
  // The host issued all work of the step before the step began on the device, so its lane is empty.
  bool host_is_done = false;
  // Number of lanes that are not drawn: pushes to and pulls from further servers, which look alike.
  int left_out = 0;
  // Neighbouring slices shorter than this were merged into one; 0 = nothing was merged.
  double merged_seconds = 0;
};

// Computes the values of each lane, then merges neighbouring slices until at most `most` are left
// in all lanes together, or no more can be merged. Slices are merged if their lengths and their
// distance are below a limit. The limit starts at a 16384th of the step and doubles up to the step;
// for each limit, first slices of the same kind are merged, then slices of any kind.
void thin_out(StepTimeline& timeline, std::size_t most);

// Converts the timeline for the page's script. Each lane is {name, slices, ...}. Its slices are one
// list with five numbers for each slice: kind, name (an index into `names`; "first … last" for
// several operations), nanoseconds since the end of the previous slice, duration in nanoseconds,
// and number of operations.
nlohmann::ordered_json json_of(const StepTimeline& timeline);

}  // namespace lockstep
