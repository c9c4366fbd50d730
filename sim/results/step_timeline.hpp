// One step of one rank, drawn on the report's page: a lane per stream, with what keeps it busy and
// why it stands still. Times are seconds since the step began on the device.
#pragma once

#include <array>
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// Kinds of slices: work, a transfer, or a wait and its cause. Names are those of the parts
// of a step (step_parts.hpp) where there is one.
enum class SliceKind {
  forward,
  backward,
  optimizer,
  copies,
  transfer,
  // Waits.
  exposed_communication,
  data_loading,
  waiting,
  copying,
  host_bound,
  updating,
  synchronising,
};
struct SliceKindText {
  std::string_view colour;   // --part-COLOUR of page.css
  std::string_view heading;  // as the key and a slice's description say it
};
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

struct TimelineSlice {
  SliceKind kind = SliceKind::forward;
  std::string name;
  double start = 0, end = 0;
  int merged = 1;           // operations and waits that it stands for; the name is the first's
  std::string last_name{};  // of several
};

struct TimelineLane {
  std::string name;                   // "compute", "gradients", "server 0: compute"
  std::vector<TimelineSlice> slices;  // ascending, none over another
  // The step as it is, however it is drawn. Waits are not busy.
  double busy_seconds = 0;
  int operations = 0;
  std::vector<TimelineSlice> longest{};  // at most three
};

struct StepTimeline {
  std::string strategy;
  int gpus = 1, rank = 0;
  int step = 0;  // 0 is the first
  double seconds = 0;
  std::vector<TimelineLane> lanes;
  bool host_is_done = false;  // it has issued all of the step before the step began
  int left_out = 0;           // ways to further servers, alike
  double merged_seconds = 0;  // neighbours shorter than this are drawn as one; 0 = none are
};

// Fills in what is said of a lane, then draws neighbours as one until there are at most `most`
// slices: first those that last and lie apart less than a 16384th of the step, of one kind and then of
// any; then those of less than twice that, ...
void thin_out(StepTimeline& timeline, std::size_t most);

// As the page's script reads it: of each lane {name, slices, ...}, a slice as five numbers: kind, name
// (index into `names`; of several "first … last"), nanoseconds since the slice before ended,
// nanoseconds that it lasts, operations that it stands for.
nlohmann::ordered_json json_of(const StepTimeline& timeline);

}  // namespace lockstep
