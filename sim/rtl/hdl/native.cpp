// The clock of the native simulator, and its C interface; sim/rtl/native.py is the other side.
//
// Linked with the C++ that Verilator makes of harness.v (the clock as a port) into one library.
// A handle is a simulation of its own, with its own Verilator context, so several live side by
// side. The host sets the harness's registers by name, flips `go`, and lets cycles pass until the
// command is done; it fills and reads the memory in place.

#include <bit>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <string>

#include "Vtop.h"
#include "Vtop___024root.h"
#include "failures.h"
#include "verilated.h"

// Memory words, as Verilator keeps them, are the bytes of external memory only on such hosts.
static_assert(std::endian::native == std::endian::little);

#define HOST_REGISTERS(X)                                                                   \
  X(op) X(op_address) X(op_data) X(op_count) X(op_limit) X(op_pause)                        \
  X(cfg_read_latency) X(cfg_write_latency) X(cfg_max_reads) X(cfg_max_writes) X(cfg_shared) \
  X(cfg_beat_cycles) X(cfg_stall) X(cfg_extra_latency) X(cfg_seed) X(cfg_phase) X(fault_first) \
  X(fault_last) X(fault_read_resp) X(fault_write_resp) X(fault_stop_channels)               \
  X(fault_stop_beats) X(wave_begin) X(wave_end)
#define HARNESS_REGISTERS(X)                                \
  X(status) X(result) X(run_cycles) X(violation)            \
  X(open_reads) X(open_unwritten) X(open_unanswered)

namespace {

struct Simulation {
  VerilatedContext context;
  std::unique_ptr<Vtop> top;
  Vtop___024root* root = nullptr;
  std::string failure;

  Simulation() {
    const char* no_arguments[] = {"native"};
    context.commandArgs(1, no_arguments);
    top = std::make_unique<Vtop>(&context, "top");
    root = top->rootp;
    top->ap_clk = 0;
    top->eval();
  }

  bool idle() const { return root->harness__DOT__done == root->harness__DOT__go; }

  // Nothing in the harness or in emitted Verilog listens to a falling edge. So it is enough to make
  // Verilator forget that the clock is high: half the evaluations, with the same rising edges.
  template <class Root>
  void cycle(Root& state) {
    if constexpr (requires { state.__Vtrigprevexpr___TOP__ap_clk__0; }) {
      state.__Vtrigprevexpr___TOP__ap_clk__0 = 0;
    } else {  // a Verilator that remembers it elsewhere
      top->ap_clk = 0;
      top->eval();
    }
    top->ap_clk = 1;
    rise_pins(*top);
    top->eval();
    second_clock(*top);
  }

  // With an SDRAM, its pins have a clock that rises with each cycle and in its middle.
  template <class Top>
  void rise_pins(Top& pins) {
    if constexpr (requires { pins.pins_clk; }) pins.pins_clk = 1;
  }

  template <class Top>
  void second_clock(Top& pins) {
    if constexpr (requires { pins.pins_clk; }) {
      pins.pins_clk = 0;
      pins.eval();
      pins.pins_clk = 1;
      pins.eval();
      pins.pins_clk = 0;
      pins.eval();
    }
  }
};

// The memory's words: of dram.v, or of the chip in sdram.v, whose rows, banks and columns lie in the
// order of a byte's address.
template <class Root>
auto& memory_of(Root& root) {
  if constexpr (requires { root.harness__DOT__dram__DOT__mem; }) {
    return root.harness__DOT__dram__DOT__mem;
  } else {
    return root.harness__DOT__dram__DOT__chip__DOT__mem;
  }
}

// Verilator's library keeps a context for each thread: that made there last, which may be gone.
Simulation& at(void* handle) {
  Simulation& simulation = *static_cast<Simulation*>(handle);
  Verilated::threadContextp(&simulation.context);
  return simulation;
}

}  // namespace

extern "C" {

void* daedal_open() { return new Simulation; }

void daedal_close(void* handle) { delete &at(handle); }

// 1, or 0 where there is no such register.
int daedal_set(void* handle, const char* name, uint64_t value) {
#define SET(NAME)                                 \
  if (std::strcmp(name, #NAME) == 0) {            \
    at(handle).root->harness__DOT__##NAME = value; \
    return 1;                                     \
  }
  HOST_REGISTERS(SET)
  return 0;
}

// 1, or 0 where there is no such register.
int daedal_get(void* handle, const char* name, uint64_t* value) {
#define GET(NAME)                                  \
  if (std::strcmp(name, #NAME) == 0) {             \
    *value = at(handle).root->harness__DOT__##NAME; \
    return 1;                                      \
  }
  HARNESS_REGISTERS(GET)
  return 0;
}

void daedal_go(void* handle) { at(handle).root->harness__DOT__go ^= 1; }

// 1 when the command is done, 0 after `max_cycles`, -1 when the simulation failed.
int daedal_advance(void* handle, uint64_t max_cycles) {
  Simulation& simulation = at(handle);
  try {
    for (; max_cycles && !simulation.idle(); --max_cycles)
      simulation.cycle(*simulation.root);
  } catch (const std::exception& error) {
    simulation.failure = error.what();
    return -1;
  }
  return simulation.idle();
}

const char* daedal_failure(void* handle) { return at(handle).failure.c_str(); }

uint8_t* daedal_memory(void* handle) {
  return reinterpret_cast<uint8_t*>(&memory_of(*at(handle).root));
}

uint64_t daedal_memory_bytes(void* handle) {
  return sizeof(memory_of(*at(handle).root));
}

}  // extern "C"
