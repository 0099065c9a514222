"""The training step through the real TPU compiler, on a machine that has no TPU.

`export` traces the step with torch_xla on virtual devices, `compiling` runs libtpu's compiler in an
environment of its own, `program` reads what came out, `bound` says what it means on the chip.
"""
