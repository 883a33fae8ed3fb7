"""The reference models, one per file, each declared as a user declares a case.

``pytest --export-ready`` without paths collects the files of this folder, and trains and exports every model. All of
them must be ready.

To add a reference model, write one new file, ``<model>.py``; nothing else needs to change:

- a frozen config dataclass, then the modules, with a comment where a shape changes: ``B`` batch, ``T`` time
  or tokens, ``C`` channels, ``H`` height or heads, ``W`` width; about 100 lines;
- import only torch and the public API of ``pytest_exportready``, never another reference model;
- at the end the case, a function ``test_<model>`` marked ``@export_ready(...)``: seeded, with the model in eval mode,
  every scenario that fits, every dimension dynamic that is dynamic in production, and example sizes of at least 2;
- small enough for a CPU: under 2 M parameters, about a second to export and run;
- valid for any inputs of the same kind: integers from the values of the example, floats within its range, and masks
  of any pattern (a softmax over nothing is NaN).

``tests/reference_models`` finds the new file.
"""
