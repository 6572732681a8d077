// Verilator's run-time library calls these instead of ending the process (VL_USER_...): a model that
// stops is an exception, which the C interface reports.

#pragma once

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>

namespace {

// Why the model is about to stop, by `$fatal` or by the library's own words.
thread_local std::string reason;

}  // namespace

// What the model prints: a reason to stop is kept, anything else goes to standard output.
int model_says(const char* format, ...) {
  char text[4096];
  va_list arguments;
  va_start(arguments, format);
  const int length = std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (std::strstr(text, "%Fatal: ") == nullptr) return std::fputs(text, stdout);
  reason = text;
  return length;
}

[[noreturn]] inline void fail(const char* file, int line, const char* message) {
  std::string text = std::string(file) + ":" + std::to_string(line) + ": " + message;
  if (!reason.empty()) text = reason;
  reason.clear();
  throw std::runtime_error(text);
}

void vl_finish(const char* file, int line, const char*) { fail(file, line, "$finish"); }
void vl_stop(const char* file, int line, const char*) { fail(file, line, "$stop"); }
void vl_fatal(const char* file, int line, const char*, const char* text) { fail(file, line, text); }
