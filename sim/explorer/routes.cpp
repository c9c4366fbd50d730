// Answers requests for the page's files, and checks where requests come from. A request that is not
// refused and posts to /answer is a question. Requests are refused with one of these HTTP status
// codes:
//   421 another host name   403 another page   404 no such path   405 wrong method   415 no JSON
#include "explorer/routes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "explorer_files.hpp"
#include "results/report.hpp"

namespace lockstep {

const char* const content_security_policy =
    "default-src 'none'; style-src 'self' 'unsafe-inline'; script-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

namespace {

// A file of the page, compiled into the program.
struct File {
  const char* target;
  const char* type;
  const char* const* text;
};
constexpr const char* javascript = "text/javascript; charset=utf-8";
const std::array files{
    File{"/", "text/html; charset=utf-8", &explorer_page},
    File{"/report.css", "text/css; charset=utf-8", &report_style},
    File{"/explorer.css", "text/css; charset=utf-8", &explorer_style},
    File{"/library.js", javascript, &report_library},
    File{"/report.js", javascript, &report_script},
    File{"/explorer.js", javascript, &explorer_script},
};

// Whether a Host header names this server.
bool is_ours(const std::string& host, int port) {
  return host == fmt::format("127.0.0.1:{}", port) || host == fmt::format("localhost:{}", port);
}

// Whether an Origin header names this server's page. Browsers send this header with each POST.
bool comes_from_us(const std::string& origin, int port) {
  constexpr std::string_view scheme = "http://";
  return origin.starts_with(scheme) && is_ours(origin.substr(scheme.size()), port);
}

}  // namespace

std::optional<PageReply> reply_to(const PageRequest& request, const Explorer& explorer,
                                  const Progress& progress, int port) {
  if (!is_ours(request.host, port)) return PageReply{421, {}, "this server has another name\n"};
  if (!request.origin.empty() && !comes_from_us(request.origin, port)) {
    return PageReply{403, {}, "asked by another page\n"};
  }
  const bool reads = request.method == "GET";
  if (request.target == "/answer") {
    if (request.method != "POST") return PageReply{405, {}, "POST it\n"};
    if (!request.content_type.starts_with("application/json")) {
      return PageReply{415, {}, "application/json is expected\n"};
    }
    return std::nullopt;
  }
  constexpr std::string_view progress_path = "/progress/";
  if (reads && request.target.starts_with(progress_path)) {
    const auto known = progress.find(request.target.substr(progress_path.size()));
    return PageReply{200, "application/json", known == progress.end() ? "null" : known->second};
  }
  const auto file = std::find_if(files.begin(), files.end(), [&](const File& candidate) {
    return request.target == candidate.target;
  });
  if (file == files.end() && request.target != "/choices") return PageReply{404, {}, "not here\n"};
  if (!reads) return PageReply{405, {}, "GET it\n"};
  if (file != files.end()) return PageReply{200, file->type, *file->text};
  return PageReply{200, "application/json", explorer.choices()};
}

}  // namespace lockstep
