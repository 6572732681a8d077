// Stands before Verilator's run-time library as it is compiled: what a model prints goes to
// failures.h, which keeps why it stops.

#pragma once

int model_says(const char* format, ...);

#define VL_PRINTF model_says
