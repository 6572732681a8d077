// Verilator's run-time library calls these instead of ending the process (VL_USER_...): a model that
// stops is an exception, which the C interface reports.

#pragma once

#include <stdexcept>
#include <string>

[[noreturn]] inline void fail(const char* file, int line, const char* message) {
  throw std::runtime_error(std::string(file) + ":" + std::to_string(line) + ": " + message);
}

void vl_finish(const char* file, int line, const char*) { fail(file, line, "$finish"); }
void vl_stop(const char* file, int line, const char*) { fail(file, line, "$stop"); }
void vl_fatal(const char* file, int line, const char*, const char* text) { fail(file, line, text); }
