// Which request gets what: the page and its files, what the controls offer, how far a question is. Requests that
// come by another name or from another page are refused, so that no page of the web can ask through
// the user's browser (DNS rebinding, cross-site requests).
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

// How far each question on its way is, as JSON, by what its page calls it.
using Progress = std::map<std::string, std::string>;

// The scenario's own values of `model` and `platform`, which may be files of the user's.
struct OwnFiles {
  std::string model, platform;
};
// Which settings a question may make: none that names a file which the page was not offered. Throws
// ConfigError about the first one that is not allowed.
void check_allowed(const std::vector<std::string>& settings, const OwnFiles& own);

// Nothing: the body is a question, which is to be simulated.
std::optional<PageReply> reply_to(const PageRequest& request, const Explorer& explorer,
                                  const Progress& progress, int port);

}  // namespace lockstep
