// Options of ranks and links that are slower than others (`stragglers:` of a scenario). For each
// struct, one describe() declares its fields for the reader, the schema and the docs;
// stragglers.hpp draws factors from the options. docs/stragglers.md explains each field. Members
// named `where` are places in the file, for error messages.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/errors.hpp"
#include "core/fields.hpp"
#include "costs/collective.hpp"

namespace lockstep {

enum class JitterKind { none, lognormal, exponential, pareto };

// Distributions of a factor on the device time of a rank in a step; 1 = nominal. The first is
// exp(sigma * N(0, 1)), whose median is 1.
struct Lognormal {
  double sigma = 0.02;
};
// 1 + Exp(mean), which is never faster than nominal.
struct ShiftedExponential {
  double mean = 0.02;
};
// 1 + scale * (Pareto(alpha) - 1), which is never faster than nominal and has a heavy tail if alpha
// is small.
struct ParetoTail {
  double alpha = 3;
  double scale = 0.02;
};
// One of the values in a file, divided by their median. The scenario's reader fills `values`
// (read_values()).
struct Empirical {
  std::string file;
  std::vector<double> values = {};
  Location where = {};
};
using Jitter = std::variant<Lognormal, ShiftedExponential, ParetoTail, Empirical>;
template <>
struct AlternativeNames<Jitter> {
  static constexpr std::array names{"lognormal", "exponential", "pareto", "empirical"};
};

// A rank that is slower (or faster) in all steps.
struct SlowRank {
  int rank = 0;
  double factor = 1;  // device work takes this many times longer
  Location where = {};
};

// Periods in which other work takes part of a rank's device. A period lasts `lasts` steps. On
// average, one period begins in every `every` steps of a rank.
struct SlowPeriods {
  int every = 1000, lasts = 20;
  double factor = 2;  // factor on device time during a period
};

// Single batches that arrive late, because the input pipeline pauses.
struct LoaderHiccups {
  int every = 100;       // mean number of a rank's micro-batches from one late batch to the next
  double seconds = 0.5;  // delay of a late batch
};

// A cable or port that negotiated less than its line rate.
struct SlowLink {
  LinkClass link = LinkClass::nic;
  int node = 0;        // the node of the link; for an uplink, any node below its leaf switch
  double speed = 0.5;  // the remaining share of the platform's rate
  double from = 0;     // simulated time, in seconds, from which the link is slow
  Location where = {};
};

// Traffic of another job on links that this job uses. It does not adapt to this job's traffic.
struct Neighbour {
  LinkClass link = LinkClass::nic;
  std::vector<int> nodes;  // nodes of the links, as in SlowLink::node; empty = all nodes
  double share = 0.5;  // share of the link's rate in each direction that it takes while it sends
  // Length of a burst in seconds; absent, or equal to `every` = it always sends.
  std::optional<double> lasts;
  std::optional<double> every;  // mean seconds from one burst to the next
  Location where = {};
};

// Nodes or ranks whose GPU is not the platform's.
struct OtherDevice {
  std::string device;             // name or path of a device file
  std::vector<int> nodes, ranks;  // exactly one of the two lists is given
  Location where = {};
};

// All stragglers of a scenario. Factors of several kinds multiply.
struct Stragglers {
  std::optional<Jitter> per_step;  // drawn for each rank and step; absent = none
  std::optional<SlowPeriods> slow_periods;
  std::optional<LoaderHiccups> loader_hiccups;
  std::vector<SlowLink> slow_links;
  std::vector<Neighbour> neighbours;
  std::vector<OtherDevice> other_devices;
  // Fixed differences between ranks: the factors are the quantiles of normal(1, sigma), assigned to
  // ranks at random. Absent = `usual_spread` on accelerators, none on CPUs.
  std::optional<double> per_rank_sigma;
  std::vector<SlowRank> slow_ranks;  // additional fixed factors
};

template <class Visitor>
void describe(Visitor& v, Lognormal& d) {
  v.field("sigma", d.sigma, "Standard deviation of the logarithm; the median is 1.",
          {.unit = Dimension::fraction, .min = 0, .max = 5});
}

template <class Visitor>
void describe(Visitor& v, ShiftedExponential& d) {
  v.field("mean", d.mean, "Mean of the exponential part that is added to 1.",
          {.unit = Dimension::fraction, .min = 0, .max = 100});
}

template <class Visitor>
void describe(Visitor& v, ParetoTail& d) {
  v.field("alpha", d.alpha, "Tail index; small = heavy.", {.min = 1.01, .max = 1000});
  v.field("scale", d.scale, "Weight of the tail: the factor is 1 + scale (Pareto - 1).",
          {.unit = Dimension::fraction, .min = 0, .max = 100});
}

template <class Visitor>
void describe(Visitor& v, Empirical& d) {
  v.location("file", d.where);
  v.field("file", d.file, "Measured step times or factors, one a line; their median is nominal.",
          {.required = true});
}

template <class Visitor>
void describe(Visitor& v, SlowPeriods& s) {
  v.field("every", s.every, "Steps of a rank from one period to the next, on average.",
          {.min = 1, .max = 1e9});
  v.field("lasts", s.lasts, "Length of a period in steps.", {.min = 1, .max = 1e6});
  v.field("factor", s.factor, "Device work takes this many times longer meanwhile.",
          {.min = 1, .max = 1000});
  v.check([&](auto report) {
    if (s.lasts > s.every) report("lasts", "longer than from one period to the next");
  });
}

template <class Visitor>
void describe(Visitor& v, LoaderHiccups& h) {
  v.field("every", h.every, "Micro-batches of a rank from one to the next, on average.",
          {.min = 1, .max = 1e9});
  v.field("lasts", h.seconds, "Delay of the batch.",
          {.unit = Dimension::seconds, .min = 0, .max = 1e6});
}

template <class Visitor>
void describe(Visitor& v, SlowLink& s) {
  v.location(s.where);
  v.field("link", s.link, "Class of the link.");
  v.field("node", s.node,
          "Index of the node, from 0: all of its links of this class are slow; of the class "
          "uplink, the uplinks of its leaf switch. Hosts of parameter servers are numbered after "
          "the nodes with GPUs.",
          {.min = 0, .max = 1e6});
  v.field("speed", s.speed, "Share of the link's rate that is left.",
          {.unit = Dimension::fraction, .min = 1e-3, .max = 1, .required = true});
  v.field("from", s.from,
          "Simulated time at which the link becomes slow; not with parameter servers.",
          {.unit = Dimension::seconds, .min = 0, .max = 1e9});
}

template <class Visitor>
void describe(Visitor& v, Neighbour& n) {
  v.location(n.where);
  v.field("link", n.link, "Class of the links.");
  v.field("nodes", n.nodes,
          "Indices of the nodes, from 0; left out: all. The class uplink means the uplinks of "
          "their leaf switches. Hosts of parameter servers are numbered after the nodes with GPUs.",
          {.min = 0, .max = 1e6, .max_items = 65536, .single = true});
  v.field("share", n.share,
          "Share of a link's rate that the neighbour takes while it sends, in each direction.",
          {.unit = Dimension::fraction, .min = 1e-3, .max = 0.999, .required = true});
  v.field("lasts", n.lasts, "Length of a burst; left out: the neighbour always sends.",
          {.unit = Dimension::seconds, .min = 1e-6, .max = 1e9});
  v.field("every", n.every, "Mean time from one burst to the next; needs `lasts`.",
          {.unit = Dimension::seconds, .min = 1e-3, .max = 1e9});
  v.check([&](auto report) {
    if (n.lasts && !n.every) report("lasts", "a burst needs `every` beside it");
    if (n.every && !n.lasts) report("every", "bursts need `lasts` beside it");
    if (n.lasts && n.every && *n.lasts > *n.every) {
      report("lasts", "longer than from one burst to the next");
    }
  });
}

template <class Visitor>
void describe(Visitor& v, OtherDevice& o) {
  v.location(o.where);
  v.field("device", o.device, "Name of a file in platforms/devices/, or a path to one.",
          {.required = true});
  v.field("nodes", o.nodes, "Indices of the nodes with this device, from 0; or give `ranks`.",
          {.min = 0, .max = 1e6, .max_items = 65536, .single = true});
  v.field("ranks", o.ranks, "Indices of the ranks with this device, from 0; or give `nodes`.",
          {.min = 0, .max = 1e6, .max_items = 65536, .single = true});
  v.check([&](auto report) {
    if (o.nodes.empty() && o.ranks.empty()) report("", "names no node or rank", "nodes, or ranks");
    if (!o.nodes.empty() && !o.ranks.empty()) {
      report("ranks", "contradicts nodes", "give one of them");
    }
  });
}

template <class Visitor>
void describe(Visitor& v, SlowRank& s) {
  v.location(s.where);
  v.field("rank", s.rank, "Index of the rank, from 0.", {.min = 0, .max = 1e6, .required = true});
  v.field("factor", s.factor, "Its device work takes this many times longer.",
          {.min = 0.01, .max = 1000, .required = true});
}

template <class Visitor>
void describe(Visitor& v, Stragglers& s) {
  v.field("per_step", s.per_step, "Slow-down drawn for every rank in every step.");
  v.field("per_rank", s.per_rank_sigma,
          "Standard deviation of the ranks' fixed speeds around 1; left out: 2.5 % on GPUs, none "
          "on CPUs.",
          {.unit = Dimension::fraction, .min = 0, .max = 1});
  v.field("slow_periods", s.slow_periods, "Ranks that are slow for a while, now and then.");
  v.field("loader_hiccups", s.loader_hiccups, "Batches that are late now and then.");
  v.field("slow_links", s.slow_links, "Links that are slower than the platform's.",
          {.max_items = 1000});
  v.field("neighbours", s.neighbours, "Traffic of other jobs on links that this job uses.",
          {.max_items = 1000});
  v.field("other_devices", s.other_devices, "Nodes or ranks with other GPUs than the platform's.",
          {.max_items = 1000});
  v.field("slow_ranks", s.slow_ranks, "Ranks that are always slower or faster.",
          {.max_items = 65536});
}

}  // namespace lockstep
