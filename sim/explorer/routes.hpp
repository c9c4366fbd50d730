// The reply to each HTTP request: the page and its files, the options of the controls, the progress
// of a question. Call reply_to() before a request is treated as a question. Requests with another
// host name or from another page are refused, so that no page of the web can ask through the user's
// browser (DNS rebinding, cross-site requests).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "explorer/explorer.hpp"

namespace lockstep {

struct PageRequest {
  std::string method, target;
  std::string host, origin, content_type;  // headers; "" = not sent
  std::string question;                    // X-Question: what the page calls it
  std::string body;
};

struct PageReply {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};

// Headers of every reply.
extern const char* const content_security_policy;

// Progress of each running question as JSON, by the page's id of the question.
using Progress = std::map<std::string, std::string>;

// The scenario's own values of `model` and `platform`, which may be files of the user's.
struct OwnFiles {
  std::string model, platform;
};
// Throws ConfigError about the first setting that a question must not make: one that names a file
// which the page did not offer.
void check_allowed(const std::vector<std::string>& settings, const OwnFiles& own);

// Returns nothing if the body is a question that must be simulated.
std::optional<PageReply> reply_to(const PageRequest& request, const Explorer& explorer,
                                  const Progress& progress, int port);

}  // namespace lockstep
