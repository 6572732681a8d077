// A simulated board behind a file descriptor; sim/rtl/board.py is the other side.
//
// Linked with the C++ that Verilator makes of a board's whole design into one library. Bytes that
// come from the descriptor go to the serial pin bit by bit, a bit in `divisor` clock cycles; what
// the design sends, bit by bit on its own pin, goes back. The board knows nothing else of the host.

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>

#include "Vtop.h"
#include "Vtop___024root.h"
#include "failures.h"
#include "verilated.h"

namespace {

constexpr uint64_t kCyclesBetweenLooks = 256;     // at the descriptor: less than a frame takes
constexpr uint64_t kCyclesUntilRest = 1ull << 13;  // without a byte: from then on cycles are rare
constexpr int kRestMilliseconds = 1;

// 8 data bits, no parity, 1 stop bit, lowest first.
struct Sender {
  unsigned divisor;
  unsigned bits = 1;  // what the line has now, and after it: the last is the line at rest
  unsigned bits_left = 0, cycles_left = 0;

  bool idle() const { return bits_left == 0; }
  void begin(uint8_t byte) {
    bits = 1u << 9 | unsigned(byte) << 1;
    bits_left = 10;
    cycles_left = divisor;
  }
  bool cycle() {  // the line in this cycle
    const bool line = bits & 1;
    if (bits_left && --cycles_left == 0) {
      cycles_left = divisor;
      bits = bits >> 1 | 1u << 9;
      --bits_left;
    }
    return line;
  }
};

struct Receiver {
  unsigned divisor;
  unsigned bits = 0, bits_left = 0, cycles_left = 0;

  // The byte whose stop bit's middle this cycle is, or -1.
  int cycle(bool line) {
    if (!bits_left) {
      if (line) return -1;
      bits_left = 10;
      cycles_left = divisor / 2;
    }
    if (cycles_left--) return -1;
    cycles_left = divisor - 1;
    bits = bits >> 1 | unsigned(line) << 9;
    if (--bits_left) return -1;
    if (bits & 1) throw std::runtime_error("the board sent a start bit that was too short");
    if (!(bits >> 9)) throw std::runtime_error("the board sent a byte without a stop bit");
    return bits >> 1 & 0xff;
  }
};

struct Board {
  VerilatedContext context;
  std::unique_ptr<Vtop> top;
  int descriptor;
  Sender sender;
  Receiver receiver;
  std::deque<uint8_t> coming;
  std::string going;
  uint64_t cycles = 0, quiet_cycles = 0;
  std::string failure;

  Board(int descriptor, unsigned divisor)
      : descriptor(descriptor), sender{divisor}, receiver{divisor} {
    const char* no_arguments[] = {"board"};
    context.commandArgs(1, no_arguments);
    top = std::make_unique<Vtop>(&context, "top");
    top->receive = 1;
    top->clock = 0;
    top->eval();
  }

  void cycle() {
    if (sender.idle() && !coming.empty()) {
      sender.begin(coming.front());
      coming.pop_front();
      quiet_cycles = 0;
    }
    top->receive = sender.cycle();
    rise(*top->rootp);
    const int byte = receiver.cycle(top->send);
    if (byte >= 0) {
      going.push_back(char(byte));
      quiet_cycles = 0;
    }
    ++cycles;
    ++quiet_cycles;
  }

  // As in native.cpp: nothing listens to falling edges, so the clock need not go down.
  template <class Root>
  void rise(Root& root) {
    if constexpr (requires { root.__Vtrigprevexpr___TOP__clock__0; }) {
      root.__Vtrigprevexpr___TOP__clock__0 = 0;
    } else {
      top->clock = 0;
      top->eval();
    }
    top->clock = 1;
    top->eval();
  }

  void look() {
    if (quiet_cycles > kCyclesUntilRest) {
      pollfd waiting{descriptor, POLLIN, 0};
      poll(&waiting, 1, kRestMilliseconds);
    }
    uint8_t buffer[4096];
    const ssize_t got = read(descriptor, buffer, sizeof buffer);
    if (got > 0) coming.insert(coming.end(), buffer, buffer + got);
    if (!going.empty()) {
      const ssize_t put = write(descriptor, going.data(), going.size());
      if (put > 0) going.erase(0, size_t(put));
    }
  }
};

Board& at(void* handle) { return *static_cast<Board*>(handle); }

}  // namespace

extern "C" {

// `descriptor` does not block; whoever opened it closes it.
void* daedal_board_open(int descriptor, unsigned divisor) { return new Board(descriptor, divisor); }

void daedal_board_close(void* handle) { delete static_cast<Board*>(handle); }

// 0 after `max_cycles`, or -1 when the simulation failed. A board at rest takes its time.
int daedal_board_advance(void* handle, uint64_t max_cycles) {
  Board& board = at(handle);
  try {
    for (uint64_t cycle = 0; cycle < max_cycles; ++cycle) {
      if (cycle % kCyclesBetweenLooks == 0) board.look();
      board.cycle();
    }
  } catch (const std::exception& error) {
    board.failure = error.what();
    return -1;
  }
  return 0;
}

uint64_t daedal_board_cycles(void* handle) { return at(handle).cycles; }

const char* daedal_board_failure(void* handle) { return at(handle).failure.c_str(); }

}  // extern "C"
