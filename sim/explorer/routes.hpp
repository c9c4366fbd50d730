// The reply to each HTTP request for the page's files, the options of the controls, or the progress
// of a question. server.cpp calls reply_to() before it treats a request as a question. Requests
// with another host name or from another page are refused, so that no web page can send questions
// through the user's browser (DNS rebinding, cross-site requests).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "explorer/explorer.hpp"

namespace lockstep {

// The parts of a request that matter here.
struct PageRequest {
  std::string method, target;
  std::string host, origin, content_type;  // headers; "" = not sent
  std::string question;  // header X-Question: the number that the page gives the question
  std::string body;
};

// A reply; the server adds headers.
struct PageReply {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};

// Value of a header of every reply. It allows the page to load files only from this server.
extern const char* const content_security_policy;

// Progress of each running question as JSON, by the page's number of the question.
using Progress = std::map<std::string, std::string>;

// The scenario's own values of `model` and `platform`, which may be files of the user.
struct OwnFiles {
  std::string model, platform;
};
// Throws ConfigError about the first setting that a question must not make: a field that has no
// control, a model or platform that is not offered, or a value of `profile` or `anchor`, which can
// only be left out.
void check_allowed(const std::vector<std::string>& settings, const OwnFiles& own);

// Returns the reply, or nothing if the body is a question that must be simulated. `port` is the
// server's own port.
std::optional<PageReply> reply_to(const PageRequest& request, const Explorer& explorer,
                                  const Progress& progress, int port);

}  // namespace lockstep
