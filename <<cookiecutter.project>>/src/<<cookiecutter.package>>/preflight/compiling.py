"""Compiles exported programs with the TPU's compiler: a script, run by the Python that has jax.

    python compiling.py FOLDER

It imports jax and nothing of this package, whose libraries that Python does not have. What it reads
and writes are files of FOLDER.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

# Before jax is loaded. Without the first, libtpu asks the network which machine this is; without
# the second, one process alone may load it, though there is no chip to be shared; with logs in
# their usual place, every Ray on this machine would print them as its workers'.
os.environ.update(
    TPU_SKIP_MDS_QUERY="1",
    ALLOW_MULTIPLE_LIBTPU_LOAD="1",
    TPU_LOG_DIR="disabled",
    JAX_PLATFORMS="cpu",
)

import jax
import numpy as np
from jax._src import compiler
from jax._src.interpreters import mlir
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import hlo
from jax.experimental import topologies
from jaxlib import _jax, xla_client

ARGUMENT = "argument."
SHARDING = "mhlo.sharding"
RESULT = "compiled.json"
# No chip holds the argument: the refusal says how much of its memory a program may have.
HUGE = "tensor<1048576x1048576xf32>"
TOO_LARGE = f"""func.func public @main(%a: {HUGE}) -> {HUGE} {{
  %b = stablehlo.add %a, %a : {HUGE}
  return %b : {HUGE}
}}"""

Shardings = dict[str, str]


class Compiler:
    """libtpu's, for the devices of a topology."""

    def __init__(self, request: dict[str, Any]) -> None:
        options = request["options"]
        if "chips_per_host_bounds" in options:
            options["chips_per_host_bounds"] = tuple(options["chips_per_host_bounds"])
        found = topologies.get_topology_desc(request["topology"], "tpu", **options).devices
        self._devices = sorted(found, key=lambda device: device.id)
        if len(found) != request["devices"]:
            sys.exit(f"{request['topology']} has {len(found)} devices, not {request['devices']}")

    def compile(self, module: ir.Module, text: Path | None = None) -> Any:
        """`text` is the folder that the compiler writes its program into."""
        numbers = np.array([[device.id for device in self._devices]])
        options = compiler.get_compile_options(
            num_replicas=1, num_partitions=len(self._devices), device_assignment=numbers
        )
        # Else each device would hold all of what comes out.
        options.executable_build_options.allow_spmd_sharding_propagation_to_output = [True]
        if text:
            debug = options.executable_build_options.debug_options
            debug.xla_dump_to, debug.xla_dump_hlo_as_text = str(text), True
        devices = _jax.DeviceList(tuple(self._devices))
        return self._devices[0].client.compile(module, devices, options)

    def memory(self) -> str:
        """What the compiler says when asked for too much; it names the memory that there is."""
        try:
            self.compile(ir.Module.parse(TOO_LARGE))
        except jax.errors.JaxRuntimeError as error:
            return str(error)
        return ""


def load(content: bytes, outputs: list[str], known: Shardings) -> tuple[ir.Module, list[str]]:
    """The module with its named calls made arguments, and the arguments' names in order.

    Those that come out again under the same name give their memory to what comes out. `known` are
    shardings of tensors that an earlier program left in memory.
    """
    module = hlo.deserialize_portable_artifact(ir.Context.current, content)
    main = ir.SymbolTable(module.operation)["main"]
    block = main.body.blocks[0]
    attributes = list(main.arg_attrs)
    names = [f"scalar.{number}" for number in range(len(attributes))]
    for call in [op for op in block.operations if target(op).startswith(ARGUMENT)]:
        name = target(call).removeprefix(ARGUMENT)
        attributes.append(describe(call, name, outputs, known))
        argument = block.add_argument(call.results[0].type, call.location)
        call.results[0].replace_all_uses_with(argument)
        call.operation.erase()
        names.append(name)
    types = [argument.type for argument in block.arguments]
    function = ir.FunctionType.get(types, main.type.results)
    main.attributes["function_type"] = ir.TypeAttr.get(function)
    main.arg_attrs = ir.ArrayAttr.get(attributes)
    module.operation.verify()
    return module, names


def describe(call: Any, name: str, outputs: list[str], known: Shardings) -> ir.DictAttr:
    """An argument's sharding, and the output that may have its memory."""
    found: dict[str, ir.Attribute] = {}
    owners = (use.owner for use in call.results[0].uses)
    marks = [op.attributes[SHARDING] for op in owners if target(op) == "Sharding"]
    if name in known:
        marks.append(ir.StringAttr.get(known[name]))
    if marks:
        found[SHARDING] = marks[0]
    if name in outputs:
        integer = ir.IntegerType.get_signless(32)
        found["tf.aliasing_output"] = ir.IntegerAttr.get(integer, outputs.index(name))
    return ir.DictAttr.get(found)


def target(op: Any) -> str:
    if op.operation.name != "stablehlo.custom_call":
        return ""
    return str(ir.StringAttr(op.attributes["call_target_name"]).value)


def judge(tpu: Compiler, folder: Path, program: dict[str, Any], known: Shardings) -> dict[str, Any]:
    """Compiles one program; `known` learns how its outputs lie in memory."""
    content = (folder / program["file"]).read_bytes()
    module, names = load(content, program["outputs"], known)
    began, text = time.perf_counter(), folder / program["name"]
    try:
        done = tpu.compile(module, text)
    except jax.errors.JaxRuntimeError as error:
        return {"name": program["name"], "refused": str(error)}
    seconds = time.perf_counter() - began
    # None where there is one device.
    if protos := done.get_output_shardings():
        shardings = map(xla_client.HloSharding.from_proto, protos)
        known.update(zip(program["outputs"], map(str, shardings), strict=True))
    return {"name": program["name"], "seconds": seconds, "arguments": names} | memory_of(done)


def memory_of(done: Any) -> dict[str, Any]:
    """Bytes of one device. What comes out in an argument's place takes none of its own."""
    stats = done.get_compiled_memory_stats()
    return {
        "argument_bytes": stats.argument_size_in_bytes,
        "output_bytes": stats.output_size_in_bytes - stats.alias_size_in_bytes,
        "temporary_bytes": stats.temp_size_in_bytes,
        "code_bytes": stats.generated_code_size_in_bytes,
    }


def main() -> None:
    folder = Path(sys.argv[1])
    request = json.loads((folder / "compile.json").read_text("utf-8"))
    # torch_xla's shardings are those of GSPMD.
    jax.config.update("jax_use_shardy_partitioner", False)
    with mlir.make_ir_context():
        result = work(Compiler(request), folder, request["programs"])
    result["peak_memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    (folder / RESULT).write_text(json.dumps(result), "utf-8")


def work(tpu: Compiler, folder: Path, programs: list[dict[str, Any]]) -> dict[str, Any]:
    """Ends at the first program that is refused: those after it would find no shardings."""
    known: Shardings = {}
    result: dict[str, Any] = {"limit": tpu.memory(), "programs": [], "shardings": known}
    for program in programs:
        print(program["name"], flush=True)
        result["programs"].append(judge(tpu, folder, program, known))
        if "refused" in result["programs"][-1]:
            break
    return result


if __name__ == "__main__":
    main()
