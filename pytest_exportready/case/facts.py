"""The names of the facts that stages measure: ``StageResult.facts`` maps them to plain JSON values.

Stages write them; the budget, the columns of the page and the comparison of nights read them. Scenarios add facts of
their own to the stage ``train``.
"""

from __future__ import annotations

from typing import Final

# export
SECONDS: Final = "seconds"  # that torch.export itself took
NODES: Final = "nodes"  # of the exported graph; in the stage decompose, of the decomposed one
# reload, aotinductor, onnx, executorch
BYTES: Final = "bytes"  # of the file that was written
COMPILED: Final = "compiled"  # where the file comes from, unless it was compiled in this run
# every stage that compares outputs
COMPARED: Final = "compared"  # how many comparisons
BITWISE: Final = "bitwise"  # whether all were equal to the bit
LARGEST: Final = "largest"  # error relative to the rms of the expected output; None if it is not finite
DECIBEL: Final = "decibel"  # the smallest signal-to-error ratio; None if it is not finite
COSINE: Final = "cosine"  # the smallest
JUDGED_BY_FLOAT64: Final = "judged_by_float64"  # comparisons that only a float64 reference decided
# eager
EAGER_BITWISE: Final = "eager_bitwise"  # whether two equal calls of the module give equal outputs
GOLDEN_LARGEST: Final = "golden_largest"  # error of the module against the recorded output
# shapes, layouts
DYNAMIC_SHAPES: Final = "dynamic_shapes"  # found with dynamic_shapes="auto", as an expression
SIZES: Final = "sizes"  # at which the program was compared
LAYOUTS: Final = "layouts"  # of inputs, in which the program was compared
# portability, operators, gradients
BRANCHES: Final = "branches"  # on the device
RAN_THERE: Final = "ran_there"  # whether the target device is in this machine
OPERATORS: Final = "operators"  # custom ones in the program
GRADIENTS: Final = "gradients"  # that were compared
# ranks, graphs
RANKS: Final = "ranks"  # that were compared
TENSORS: Final = "tensors"  # that they hold
OUTPUTS: Final = "outputs"  # whether those of the ranks agree
GRAPHS: Final = "graphs"  # different ones that the ranks exported

SAME_EVERY_NIGHT: Final = (NODES, OPERATORS, BRANCHES, GRADIENTS, GRAPHS, BYTES)
"""Facts that do not change as long as the program does not."""
