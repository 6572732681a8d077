"""Examples of every command, which end its ``--help``."""

from collections.abc import Mapping

__all__ = ["EXAMPLES"]

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "quantize": (
        "daedal quantize float.onnx -s images.npz -o int8.onnx",
        "daedal quantize float.onnx -s images.npz --method mse --errors -o int8.onnx",
        "daedal quantize float.onnx -s images.npz --exclude /head/Conv -o int8.onnx",
    ),
    "compile": (
        "daedal compile int8.onnx -v vta -o net.daedal",
        "daedal compile float.onnx --target cpu -o net.daedal",
        "daedal compile int8.onnx -v ecp5 --records tuned.db -o net.daedal",
    ),
    "run": (
        "daedal run net.daedal -i images.npz -o results.npz",
        "daedal run net.daedal -i images.npz --device rtl --check int8.onnx",
        "daedal run net.daedal -i images.npz --device uart --option port=/dev/ttyUSB0",
    ),
    "profile": (
        "daedal profile net.daedal",
        "daedal profile net.daedal --memory ulx3s --html profile.html",
    ),
    "explore": (
        "daedal explore int8.onnx --fpga ecp5-85f -o found",
        "daedal explore resnet.onnx mobilenet.onnx --board ulx3s-85f -o found",
    ),
    "generate": ("daedal generate net.daedal --decoder decoder.npz --ids 1 --tokens 64",),
    "inspect": (
        "daedal inspect net.daedal",
        "daedal inspect net.daedal --memory ulx3s --mhz 71.4 --html parts.html",
    ),
    "evaluate": (
        "daedal evaluate int8.onnx -d images.npz --against float.onnx",
        "daedal evaluate net.daedal -d images.npz --labels classes --against float.onnx",
    ),
    "diff": ("daedal diff before.json after.json",),
    "trace": ("daedal trace net.daedal -i images.npz",),
    "disasm": ("daedal disasm net.daedal", "daedal disasm net.daedal -o net.s"),
    "tune": (
        "daedal tune int8.onnx -v vta --trials 64 -r tuned.db",
        "daedal tune float.onnx --target cpu -r tuned.db",
    ),
    "compare": ("daedal compare vta ecp5 mine.toml -m int8.onnx",),
    "pool": (
        "daedal pool --listen 127.0.0.1:8786",
        "daedal pool --join 127.0.0.1:8786 --workers 4",
    ),
    "verilog": ("daedal verilog vta -o vta.v",),
    "export": ("daedal export vta -o ip",),
    "synth": (
        "daedal synth tiny --fpga ecp5-85f",
        "daedal synth mine.toml --fpga xc7z020 --estimate",
    ),
    "build": (
        "daedal build tiny --board ulx3s-85f -o board",
        "daedal build smallest --board mine.toml --ram 64 -o board",
    ),
    "board-test": ("daedal board-test tiny --option port=/dev/ttyUSB0",),
    "variants": ("daedal variants",),
    "ops": ("daedal ops", "daedal ops Conv Pool"),
    "doctor": ("daedal doctor",),
}
