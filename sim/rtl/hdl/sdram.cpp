// Plays bursts on an SDRAM controller with its chip (sdram_bench.v); sim/rtl/sdram.py is the other
// side.
//
// Linked with the C++ that Verilator makes of both into one library. It is an AXI4 master that sends
// the bursts of a list, with random pauses on every channel, and records the cycle of every beat.

#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "Vtop.h"
#include "Vtop___024root.h"
#include "failures.h"
#include "verilated.h"

namespace {

#define SETTINGS(X)                                                                            \
  X(fault) X(cfg_clock_ps) X(cfg_mode) X(cfg_row_to_data_ps) X(cfg_precharge_ps)               \
  X(cfg_row_open_ps) X(cfg_row_cycle_ps) X(cfg_write_recovery_ps) X(cfg_refresh_ps)            \
  X(cfg_row_to_row_ps) X(cfg_mode_clocks) X(cfg_refresh_interval_ps) X(cfg_power_up_ps)        \
  X(cfg_init_refreshes)

constexpr uint64_t kResetCycles = 4;

// The same as the class `_Play` of sdram.py. Cycles are those of handshakes.
struct Play {
  uint64_t bursts;            // of the machine, in the order in which they are sent
  const uint8_t* writes;      // of each burst: 1 for a write
  const uint8_t* ids;
  const uint64_t* addresses;
  const uint16_t* beats;
  const uint64_t* not_before;  // cycle, counted as those that are returned
  const uint64_t* words;       // of the writes, one after the other, and their strobes
  const uint8_t* strobes;
  uint64_t* address_cycles;    // of each burst
  uint64_t* answer_cycles;     // of each burst: B, or its last R
  uint8_t* answers;            // the worst response of each burst
  uint64_t* beat_cycles;       // of all beats, in the order of the bursts
  uint64_t* read_words;        // of all beats; 0 for those of writes

  uint64_t accesses;           // of the host
  const uint64_t* host_addresses;
  const uint8_t* host_strobes;
  uint64_t* host_words;        // to write, or read
  uint64_t* host_cycles;       // of the pulse

  uint64_t seed;
  uint8_t stalls[6];           // odds of 256 for a pause: AR, R, AW, W, B, host
  uint32_t most_open;          // bursts of a direction whose answer is not complete
  uint32_t in_order;           // an address waits for those of the other direction before it
  uint64_t reset_at;           // cycle in which the machine is reset and its bursts end; 0: never
  uint64_t most_cycles;
  uint64_t cycles;             // returned: the last handshake
  uint64_t began;              // returned: cycle 0, counted from the end of the reset
};

struct Bench {
  VerilatedContext context;
  std::unique_ptr<Vtop> top;
  uint64_t cycles = 0;
  std::string failure;

  Bench() {
    const char* no_arguments[] = {"sdram"};
    context.commandArgs(1, no_arguments);
    top = std::make_unique<Vtop>(&context, "top");
    top->rst = 1;
    top->machine_reset = 0;
    idle();
    for (uint64_t k = 0; k < kResetCycles; ++k) cycle();
    top->rst = 0;
  }

  void idle() {
    top->arvalid = top->awvalid = top->wvalid = top->host_valid = 0;
    top->rready = top->bready = 1;
  }

  // The outputs of this cycle, for its inputs.
  void settle() {
    top->clk = top->pins_clk = 0;
    top->eval();
  }

  void edge() {
    top->clk = top->pins_clk = 1;
    top->eval();
    top->pins_clk = 0;
    top->eval();
    top->pins_clk = 1;
    top->eval();
    ++cycles;
  }

  void cycle() {
    settle();
    edge();
  }
};

struct Random {
  uint64_t state;
  bool pauses(unsigned odds) {
    if (!odds) return false;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (state >> 20 & 0xff) < odds;
  }
};

struct Player {
  Bench& bench;
  Play& play;
  Random random;
  std::vector<uint64_t> first_beat, first_word;
  uint64_t at[2] = {0, 0};                 // next burst to send, by direction
  std::deque<uint64_t> open[2], to_send;   // bursts without an answer; writes with words left
  uint64_t read_beat = 0, sent_beat = 0, done = 0;
  uint64_t access = 0;
  bool host_waits = false;
  uint64_t began = 0;

  Player(Bench& bench, Play& play) : bench(bench), play(play), random{play.seed | 1} {
    uint64_t beats = 0, words = 0;
    for (uint64_t k = 0; k < play.bursts; ++k) {
      first_beat.push_back(beats);
      first_word.push_back(words);
      beats += play.beats[k];
      if (play.writes[k]) words += play.beats[k];
    }
    began = bench.cycles;
    play.began = began - kResetCycles;
    at[0] = next(0, 0);
    at[1] = next(1, 0);
  }

  uint64_t now() const { return bench.cycles - began; }
  uint64_t next(int direction, uint64_t from) const {
    while (from < play.bursts && play.writes[from] != direction) ++from;
    return from;
  }
  bool may_send(int direction) const {
    const uint64_t burst = at[direction];
    return burst < play.bursts && now() >= play.not_before[burst] &&
           open[direction].size() < play.most_open &&
           (!play.in_order || burst < at[!direction]);
  }

  // What is offered stays until it is taken.
  void offer() {
    Vtop& top = *bench.top;
    if (!top.arvalid && may_send(0) && !random.pauses(play.stalls[0])) {
      const uint64_t k = at[0];
      top.arvalid = 1;
      top.arid = play.ids[k];
      top.araddr = play.addresses[k];
      top.arlen = play.beats[k] - 1;
    }
    if (!top.awvalid && may_send(1) && !random.pauses(play.stalls[2])) {
      const uint64_t k = at[1];
      top.awvalid = 1;
      top.awid = play.ids[k];
      top.awaddr = play.addresses[k];
      top.awlen = play.beats[k] - 1;
    }
    if (!top.wvalid && !to_send.empty() && !random.pauses(play.stalls[3])) {
      const uint64_t k = to_send.front();
      top.wvalid = 1;
      top.wdata = play.words[first_word[k] + sent_beat];
      top.wstrb = play.strobes[first_word[k] + sent_beat];
      top.wlast = sent_beat + 1 == play.beats[k];
    }
    top.rready = !random.pauses(play.stalls[1]);
    top.bready = !random.pauses(play.stalls[4]);
    top.host_valid = 0;
    if (access < play.accesses && !host_waits && !random.pauses(play.stalls[5])) {
      top.host_valid = 1;
      top.host_address = play.host_addresses[access];
      top.host_strobes = play.host_strobes[access];
      top.host_data = play.host_words[access];
    }
  }

  void take() {
    Vtop& top = *bench.top;
    const bool ar = top.arvalid && top.arready, aw = top.awvalid && top.awready;
    const bool w = top.wvalid && top.wready, r = top.rvalid && top.rready;
    const bool b = top.bvalid && top.bready, host = top.host_valid && top.host_ready;
    if (r) take_read();
    if (b) take_answer();
    if (host) {
      play.host_cycles[access] = now();
      if (play.host_strobes[access]) ++access;
      else host_waits = true;
    }
    if (top.host_word_valid) {
      if (!host_waits) throw std::runtime_error("the host got a word that it did not ask for");
      play.host_words[access++] = top.host_word;
      host_waits = false;
    }
    bool w_taken = false;
    if (w) {
      const uint64_t k = to_send.front();
      play.beat_cycles[first_beat[k] + sent_beat] = now();
      if (++sent_beat == play.beats[k]) {
        to_send.pop_front();
        sent_beat = 0;
      }
      w_taken = true;
    }
    for (int direction = 0; direction < 2; ++direction)
      if (direction ? aw : ar) {
        const uint64_t k = at[direction];
        play.address_cycles[k] = now();
        open[direction].push_back(k);
        if (direction) to_send.push_back(k);
        at[direction] = next(direction, k + 1);
      }
    bench.edge();
    if (ar) top.arvalid = 0;
    if (aw) top.awvalid = 0;
    if (w_taken) top.wvalid = 0;
  }

  void take_read() {
    Vtop& top = *bench.top;
    if (open[0].empty()) throw std::runtime_error("an R came without a burst");
    const uint64_t k = open[0].front(), beat = first_beat[k] + read_beat;
    play.beat_cycles[beat] = play.answer_cycles[k] = now();
    play.read_words[beat] = top.rdata;
    if (top.rresp > play.answers[k]) play.answers[k] = top.rresp;
    if (top.rid != play.ids[k]) throw std::runtime_error("an R has the ID of another burst");
    const bool last = ++read_beat == play.beats[k];
    if (bool(top.rlast) != last) throw std::runtime_error("RLAST is wrong");
    if (!last) return;
    open[0].pop_front();
    read_beat = 0;
    ++done;
  }

  void take_answer() {
    Vtop& top = *bench.top;
    if (open[1].empty()) throw std::runtime_error("a B came without a burst");
    const uint64_t k = open[1].front();
    if (!to_send.empty() && to_send.front() == k)
      throw std::runtime_error("a B came before the last W");
    if (top.bid != play.ids[k]) throw std::runtime_error("a B has the ID of another burst");
    play.answer_cycles[k] = now();
    play.answers[k] = top.bresp;
    open[1].pop_front();
    ++done;
  }

  void reset_machine() {
    bench.idle();
    bench.top->machine_reset = 1;
    for (int k = 0; k < 16; ++k) bench.cycle();
    bench.top->machine_reset = 0;
    bench.cycle();  // the reset is registered
  }

  void run() {
    while (done < play.bursts || access < play.accesses) {
      if (now() >= play.most_cycles) throw std::runtime_error("the bursts did not end in time");
      if (play.reset_at && now() == play.reset_at) return reset_machine();
      offer();
      bench.settle();
      play.cycles = now();
      take();
    }
    bench.idle();
    for (int k = 0; k < 32; ++k) bench.cycle();  // a write's last word reaches the chip
  }
};

Bench& at(void* handle) {
  Bench& bench = *static_cast<Bench*>(handle);
  Verilated::threadContextp(&bench.context);
  return bench;
}

}  // namespace

extern "C" {

void* daedal_sdram_open() { return new Bench; }

void daedal_sdram_close(void* handle) { delete &at(handle); }

// 1, or 0 where there is no such setting. They are set before the first `play`.
int daedal_sdram_set(void* handle, const char* name, uint64_t value) {
#define SET(NAME)                         \
  if (std::strcmp(name, #NAME) == 0) {    \
    at(handle).top->NAME = value;         \
    return 1;                             \
  }
  SETTINGS(SET)
  return 0;
}

// 0 when all bursts are done, -1 when the simulation failed.
int daedal_sdram_play(void* handle, Play* play) {
  Bench& bench = at(handle);
  try {
    Player(bench, *play).run();
  } catch (const std::exception& error) {
    bench.failure = error.what();
    return -1;
  }
  return 0;
}

const char* daedal_sdram_failure(void* handle) { return at(handle).failure.c_str(); }

uint8_t* daedal_sdram_memory(void* handle) {
  return reinterpret_cast<uint8_t*>(&at(handle).top->rootp->sdram_bench__DOT__chip__DOT__mem);
}

uint64_t daedal_sdram_memory_bytes(void* handle) {
  return sizeof(at(handle).top->rootp->sdram_bench__DOT__chip__DOT__mem);
}

}  // extern "C"
