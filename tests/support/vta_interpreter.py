"""VTA in plain Python, in program order: bits, scratchpads and arithmetic with no code of ours.

What upstream's functional simulator does, written from the description of its instructions: a
STORE takes the low 8 bits of accumulators, SHR by a negative amount shifts left, MUL keeps 32 bits.
"""

ELEMENT_BYTES = {0: 4, 1: 256, 2: 16, 3: 64, 4: 16, 5: 16}


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def bits(word: int, first: int, end: int) -> int:
    return word >> first & ((1 << (end - first)) - 1)


class Interpreter:
    """Runs a stream on `memory`, which maps addresses to single bytes."""

    def __init__(self, memory: dict[int, int]) -> None:
        self.memory = memory
        self.uop = [0] * 8192
        self.inp = [[0] * 16 for _ in range(2048)]
        self.wgt = [[0] * 256 for _ in range(1024)]
        self.acc = [[0] * 16 for _ in range(2048)]

    def run(self, stream: bytes) -> None:
        for begin in range(0, len(stream), 16):
            word = int.from_bytes(stream[begin : begin + 16], "little")
            code = bits(word, 0, 3)
            if code == 3:
                return
            if code == 0:
                self.load(word)
            elif code == 1:
                self.store(word)
            else:
                self.loop(word, code)
        raise AssertionError("the stream does not end")

    def elements(self, address: int, memory: int) -> list[int] | int:
        data = bytes(self.memory[address + k] for k in range(ELEMENT_BYTES[memory]))
        if memory == 0:
            return int.from_bytes(data, "little")
        size = 4 if memory == 3 else 1
        return [
            int.from_bytes(data[k : k + size], "little", signed=True)
            for k in range(0, len(data), size)
        ]

    def load(self, word: int) -> None:
        memory = bits(word, 7, 10)
        target = {0: self.uop, 1: self.wgt, 2: self.inp, 3: self.acc, 5: self.acc}[memory]
        zero = 0 if memory == 0 else [0] * (256 if memory == 1 else 16)
        row, dram = bits(word, 10, 26), bits(word, 26, 58)
        y_size, x_size = bits(word, 64, 80), bits(word, 80, 96)
        stride = bits(word, 96, 112)
        y0, y1 = bits(word, 112, 116), bits(word, 116, 120)
        x0, x1 = bits(word, 120, 124), bits(word, 124, 128)
        if x_size == 0:
            return
        for y in range(-y0, y_size + y1):
            for x in range(-x0, x_size + x1):
                inside = 0 <= y < y_size and 0 <= x < x_size
                if inside:
                    address = (dram + y * stride + x) * ELEMENT_BYTES[memory]
                    target[row] = self.elements(address, memory)
                else:
                    target[row] = zero if memory == 0 else list(zero)
                row += 1

    def store(self, word: int) -> None:
        row, dram = bits(word, 10, 26), bits(word, 26, 58)
        y_size, x_size = bits(word, 64, 80), bits(word, 80, 96)
        stride = bits(word, 96, 112)
        for y in range(y_size):
            for x in range(x_size):
                address = (dram + y * stride + x) * 16
                for k, value in enumerate(self.acc[row]):
                    self.memory[address + k] = value & 0xFF
                row += 1

    def loop(self, word: int, code: int) -> None:
        begin, end = bits(word, 8, 21), bits(word, 21, 35)
        for i in range(bits(word, 35, 49)):
            for j in range(bits(word, 49, 63)):
                for uop in self.uop[begin:end]:
                    dst = bits(uop, 0, 11) + i * bits(word, 64, 75) + j * bits(word, 75, 86)
                    src = bits(uop, 11, 22) + i * bits(word, 86, 97) + j * bits(word, 97, 108)
                    if code == 4:
                        self.alu(word, dst, src)
                    elif bits(word, 7, 8):
                        self.acc[dst] = [0] * 16
                    else:
                        wgt = (
                            bits(uop, 22, 32) + i * bits(word, 108, 118) + j * bits(word, 118, 128)
                        )
                        self.product(dst, src, wgt)

    def product(self, dst: int, src: int, wgt: int) -> None:
        for o in range(16):
            total = self.acc[dst][o]
            for k in range(16):
                total += self.inp[src][k] * self.wgt[wgt][16 * o + k]
            self.acc[dst][o] = signed(total, 32)

    def alu(self, word: int, dst: int, src: int) -> None:
        for k in range(16):
            x = self.acc[dst][k]
            y = signed(bits(word, 112, 128), 16) if bits(word, 111, 112) else self.acc[src][k]
            self.acc[dst][k] = signed(self.apply(bits(word, 108, 111), x, y), 32)

    @staticmethod
    def apply(operation: int, x: int, y: int) -> int:
        if operation == 0:
            return min(x, y)
        if operation == 1:
            return max(x, y)
        if operation == 2:
            return x + y
        if operation == 3:
            return x >> y if y >= 0 else x << -y
        assert operation == 4
        return x * y
